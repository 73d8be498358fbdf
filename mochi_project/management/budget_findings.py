"""Tells for ``mochi-server doctor`` how budgets stand."""

from mochi_project.management.findings import Finding
from mochi_project.wiring.services import Services
from sessions_app.errors import MochiError


def budgets_finding(services: Services) -> Finding:
    """Report which budgets are used up, and whether ``budgets.json`` can be used."""
    try:
        standings = services.observers.budgets.standings()
    except MochiError as error:
        return Finding("budgets", "broken", error.message)
    if not standings:
        return Finding("budgets", "ok", "none in budgets.json: models may be used without limits")
    used_up = [each.message for each in standings if each.is_used_up]
    if used_up:
        return Finding("budgets", "note", " ".join(used_up))
    return Finding("budgets", "ok", f"{len(standings)}, none is used up")
