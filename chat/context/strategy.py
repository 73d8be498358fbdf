"""Names the strategies that make a history fit. Pure."""

from typing import Literal, get_args

import msgspec

from sessions_app.session import ContextStrategy

DEFAULT_STRATEGY: ContextStrategy = "summarize_history"

Cut = Literal["tokens", "messages"]


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """Shortens a history that is too long.

    Attributes:
        name: What it is called in settings and files.
        filters: Whether tool rounds and broken answers of earlier turns go first.
        cut: The measure by which the oldest messages are dropped; None drops none.
        summarizes: Whether a summary takes their place.
    """

    name: str
    filters: bool = False
    cut: Cut | None = None
    summarizes: bool = False

    @property
    def shortens(self) -> bool:
        """Return whether it leaves anything out."""
        return self.filters or self.cut is not None


_CUTS: dict[str, Cut] = {
    "summarize_history": "tokens",
    "truncate_by_tokens": "tokens",
    "truncate_history": "messages",
}


def _parse(name: str) -> Strategy:
    """Return the strategy that a name spells out, e.g. ``filter_history+summarize_history``."""
    steps = name.split("+")
    return Strategy(
        name=name,
        filters="filter_history" in steps,
        cut=next((_CUTS[step] for step in steps if step in _CUTS), None),
        summarizes="summarize_history" in steps,
    )


STRATEGIES = {name: _parse(name) for name in get_args(ContextStrategy)}


def strategy_of(name: str | None, default: str = DEFAULT_STRATEGY) -> Strategy:
    """Return the strategy of a session; a name that a newer version knows counts as the default."""
    return STRATEGIES.get(name or default) or STRATEGIES[DEFAULT_STRATEGY]
