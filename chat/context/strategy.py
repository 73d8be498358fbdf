"""The named ways to make a history fit. Pure."""

from typing import Literal

import msgspec

DEFAULT_STRATEGY = "summarize_history"

Cut = Literal["tokens", "messages"]


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to a history that is too long.

    Attributes:
        name: What it is called in settings and files.
        filters: Whether tool rounds and broken answers of earlier turns go first.
        cut: By what the oldest messages are left out; None leaves none out.
        summarises: Whether the model tells itself what they said.
    """

    name: str
    filters: bool = False
    cut: Cut | None = None
    summarises: bool = False


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy(name="summarize_history", cut="tokens", summarises=True),
        Strategy(name="truncate_by_tokens", cut="tokens"),
        Strategy(name="truncate_history", cut="messages"),
        Strategy(name="filter_history", filters=True),
        Strategy(
            name="filter_history+summarize_history", filters=True, cut="tokens", summarises=True
        ),
        Strategy(name="filter_history+truncate_by_tokens", filters=True, cut="tokens"),
        Strategy(name="none"),
    )
}


def strategy_of(name: str | None, default: str = DEFAULT_STRATEGY) -> Strategy:
    """Return the strategy of a session; a name that a newer version knows counts as the default."""
    return STRATEGIES.get(name or default) or STRATEGIES[DEFAULT_STRATEGY]
