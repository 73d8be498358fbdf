"""The port to what decides whether a toolset may be used at all."""

from collections.abc import Awaitable, Callable

Gate = Callable[[], Awaitable[str | None]]
"""Returns why nothing of a place may be used, as a sentence for people; None when it may be."""


async def always_open() -> str | None:
    """Let everything be used."""
    return None
