"""Builds the budget checks of model calls."""

from typing import TYPE_CHECKING

from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.usage import Usage
from usage_app.budgets.observer import Budgets

if TYPE_CHECKING:
    from usage_app.budgets.gate import BudgetGate

NAME = "budgets.json"


def build_budgets(settings: MochiSettings, usage: Usage) -> Budgets:
    """Build the observer; opens nothing."""
    path = settings.resolved_data_dir / NAME

    def build() -> "BudgetGate":
        from usage_app.budgets.gate import BudgetGate  # noqa: PLC0415 - only with budgets
        from usage_app.budgets.running_calls import RunningCalls  # noqa: PLC0415

        running = RunningCalls(settings.resolved_state_dir / "budgets")
        running.sweep()
        return BudgetGate(path, ledger=usage.ledger, prices=usage.prices, running=running)

    return Budgets(path, build)
