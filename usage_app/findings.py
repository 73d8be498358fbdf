"""Checks usage, prices and budgets for ``mochi-server doctor``, and budgets for ``usage``."""

import os
from collections.abc import Iterator

from mochi_project.app import Services
from mochi_project.console.findings import Finding
from mochi_project.principal import DEFAULT_OWNER
from sessions_app.errors import MochiError
from usage_app.budgets.observer import Budgets
from usage_app.ledger import Ledger
from usage_app.prices import PriceList


def usage_findings(services: Services) -> Iterator[Finding]:
    """Look at the ledger and at ``prices.json``; changes nothing."""
    yield _ledger(services.get(Ledger))
    prices = services.get(PriceList)
    prices.refresh()
    if prices.problem is not None:
        yield Finding("prices", "note", f"{prices.problem} None of its prices is used.")
    elif prices.own:
        yield Finding("prices", "ok", f"prices.json has {prices.own}, others are genai-prices'")


def _ledger(ledger: Ledger) -> Finding:
    try:
        months = ledger.months()
    except OSError as error:
        return Finding("usage", "note", f"{ledger.directory} can't be read: {error.strerror}")
    if not months:
        return Finding("usage", "ok", "no model was called yet")
    if not os.access(ledger.directory, os.W_OK):
        return Finding("usage", "note", f"{ledger.directory} can't be written to: usage is lost")
    size = sum(map(ledger.size, months))
    since = f"since {months[0]}" if len(months) > 1 else f"of {months[0]}"
    return Finding("usage", "ok", f"{size / 1_000_000:,.1f} MB of model calls {since}")


def budgets_finding(services: Services) -> Finding:
    """Report which budgets are used up, and whether ``budgets.json`` can be used."""
    try:
        standings = services.get(Budgets).standings(None)
    except MochiError as error:
        return Finding("budgets", "broken", error.message)
    if not standings:
        return Finding("budgets", "ok", "none in budgets.json: models may be used without limits")
    used_up = [each.message(DEFAULT_OWNER) for each in standings if each.is_used_up]
    if used_up:
        return Finding("budgets", "note", " ".join(used_up))
    return Finding("budgets", "ok", f"{len(standings)}, none is used up")


def budget_lines(services: Services, owner: str | None) -> Iterator[str]:
    """Yield a line for each budget of an owner, or of all, or what keeps them from being used."""
    try:
        standings = services.get(Budgets).standings(owner)
    except MochiError as error:
        yield error.message
        return
    for each in standings:
        spent = each.budget.in_words(each.budget.part_of(each.spent))
        yield f"budget of {each.budget}: {spent} used"
