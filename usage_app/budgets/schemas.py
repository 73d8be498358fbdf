"""Declares the answer of the budgets' route."""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from usage_app.budgets.gate import BudgetStatus

_EXAMPLE: dict[str, Any] = {
    "scope": {"model": "openai:*"},
    "owner": None,
    "period": "day",
    "unit": "cost_usd",
    "limit": "5",
    "spent": "4.02",
    "left": "0.98",
    "running": "0.01",
    "action": "refuse",
    "resets_at": "2026-11-24T00:00:00Z",
    "is_used_up": False,
    "requests": 31,
    "unpriced_requests": 0,
}


class ScopeOut(BaseModel):
    """The calls that a budget covers: those of a model, of a provider, or all."""

    model: str | None = None
    provider: str | None = None


class BudgetOut(BaseModel):
    """A budget and its use in the current period."""

    scope: ScopeOut
    owner: str | None = Field(description="Whose calls count; null: those of all owners together")
    period: str = Field(description="`day`, `month` (both UTC) or `total`")
    unit: str = Field(description="`cost_usd`, `tokens` or `requests`")
    limit: str | int = Field(description="US dollars as a decimal number in a string, or a count")
    spent: str | int = Field(description="By calls that have ended")
    left: str | int = Field(description="Never below 0; of calls that run nothing is taken off")
    running: str | int = Field(description="What calls that run will probably use")
    action: str = Field(description="`refuse` or `warn`")
    resets_at: str | None = Field(description="When it resets (UTC); null: never")
    is_used_up: bool
    requests: int = Field(description="The calls that have ended and count")
    unpriced_requests: int = Field(
        description="Calls whose price is unknown; they add nothing to the costs"
    )


class BudgetsOut(BaseModel):
    """The budgets in the order of `budgets.json`; empty without that file."""

    model_config = ConfigDict(json_schema_extra={"example": {"budgets": [_EXAMPLE]}})

    budgets: list[BudgetOut]


def standings_to_json(standings: "Sequence[BudgetStatus]") -> dict[str, Any]:
    """Return the state of budgets as JSON-compatible values."""
    return {"budgets": [_standing_to_json(each) for each in standings]}


def _standing_to_json(standing: "BudgetStatus") -> dict[str, Any]:
    budget = standing.budget
    spent = budget.part_of(standing.spent)
    return {
        "scope": {"model": budget.scope.model, "provider": budget.scope.provider},
        "owner": budget.owner,
        "period": budget.period,
        "unit": budget.unit,
        "limit": budget.shown(budget.limit),
        "spent": budget.shown(spent),
        "left": budget.shown(max(budget.limit - spent, Decimal(0))),
        "running": budget.shown(budget.part_of(standing.running)),
        "action": budget.action,
        "resets_at": standing.resets_at,
        "is_used_up": standing.is_used_up,
        "requests": standing.spent.requests,
        "unpriced_requests": standing.spent.unpriced,
    }
