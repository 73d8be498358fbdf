"""Reports the state of budgets for ``mochi-server doctor`` and ``usage``."""

from collections.abc import Iterator

from mochi_project.app import Services
from mochi_project.console.findings import Finding
from sessions_app.errors import MochiError
from usage_app.budgets.observer import Budgets


def budgets_finding(services: Services) -> Finding:
    """Report which budgets are used up, and whether ``budgets.json`` can be used."""
    try:
        standings = services.get(Budgets).standings()
    except MochiError as error:
        return Finding("budgets", "broken", error.message)
    if not standings:
        return Finding("budgets", "ok", "none in budgets.json: models may be used without limits")
    used_up = [each.message for each in standings if each.is_used_up]
    if used_up:
        return Finding("budgets", "note", " ".join(used_up))
    return Finding("budgets", "ok", f"{len(standings)}, none is used up")


def budget_lines(services: Services) -> Iterator[str]:
    """Yield a line for each budget, or what keeps them from being used."""
    try:
        standings = services.get(Budgets).standings()
    except MochiError as error:
        yield error.message
        return
    for each in standings:
        spent = each.budget.in_words(each.budget.part_of(each.spent))
        yield f"budget of {each.budget}: {spent} used"
