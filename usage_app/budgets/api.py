"""Serves the state of budgets: parses, calls, encodes."""

import asyncio
from typing import Any

from django.http import HttpRequest

from mochi_project.app import service
from mochi_project.principal import principal
from mochi_project.routing import Router
from sessions_app.http.error_schemas import ENVELOPE
from usage_app.budgets.observer import Budgets
from usage_app.budgets.schemas import BudgetsOut, standings_to_json

router = Router(scope="read", tags=["usage"])


@router.get(
    "/budgets",
    response={200: BudgetsOut, (500, 503, 507): ENVELOPE},
    summary="List budgets",
    description=(
        "Your budgets of `budgets.json`, with what is used of each in its present period, by all "
        "processes of this data directory; those of all owners together are the operator's. "
        "While the file can't be used, no model is called: 500 "
        "`BUDGETS_INVALID` says what to fix."
    ),
    operation_id="list_budgets",
)
async def list_budgets(request: HttpRequest) -> dict[str, Any]:
    """List the budgets."""
    budgets = service(Budgets)
    return standings_to_json(await asyncio.to_thread(budgets.standings, principal().owner))
