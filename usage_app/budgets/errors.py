"""Declares the errors of budgets.

The tree::

    MochiError
      + CallRefused             (``models_app.errors``)
        * BudgetExceeded        BUDGET_EXCEEDED
        * BudgetsInvalid        BUDGETS_INVALID
"""

from models_app.errors import CallRefused


class BudgetExceeded(CallRefused):
    """A budget of ``budgets.json`` is used up; the model was not asked."""

    code = "BUDGET_EXCEEDED"


class BudgetsInvalid(CallRefused):
    """``budgets.json`` is invalid, so no model is called until it is fixed or removed."""

    code = "BUDGETS_INVALID"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"No model is called while budgets.json can't be used. Fix or remove it: {reason}",
            reason=reason,
        )
