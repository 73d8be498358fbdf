"""Declares the port that decides whether a toolset may be used (docs/decisions/0035)."""

from collections.abc import Awaitable, Callable

Gate = Callable[[], Awaitable[str | None]]
"""Returns None, or a sentence that says why nothing of a place may be used."""


async def always_open() -> str | None:
    """Allow everything."""
    return None
