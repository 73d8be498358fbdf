"""The port that says whether a toolset may be used (docs/decisions/0035)."""

from collections.abc import Awaitable, Callable

Gate = Callable[[], Awaitable[str | None]]
"""Returns why nothing of a place may be used, as a sentence for people; None when it may be."""


async def always_open() -> str | None:
    """Let everything be used."""
    return None
