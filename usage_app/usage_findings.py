"""Checks for ``mochi-server doctor`` that usage can be recorded, and which prices are known."""

import os
from collections.abc import Iterator

from mochi_project.console.findings import Finding
from usage_app.usage import Usage


def usage_findings(usage: Usage) -> Iterator[Finding]:
    """Look at the ledger and at ``prices.json``; changes nothing."""
    yield _ledger(usage)
    prices = usage.prices
    prices.refresh()
    if prices.problem is not None:
        yield Finding("prices", "note", f"{prices.problem} None of its prices is used.")
    elif prices.own:
        yield Finding("prices", "ok", f"prices.json has {prices.own}, others are genai-prices'")


def _ledger(usage: Usage) -> Finding:
    ledger = usage.ledger
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
