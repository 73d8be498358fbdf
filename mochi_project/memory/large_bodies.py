"""Limits how many large request bodies are in memory concurrently (docs/decisions/0059).

A place is taken when a body is received, and released by its reader as soon as it has been parsed,
because the response may stream for minutes.
"""

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

from mochi_project.memory.large_responses import ResponseSlot

MOST = 4
WAIT_SECONDS = 10.0

_KEY = "mochi.large_body"


class LargeBodies:
    """Limits concurrent large bodies; others wait."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MOST)

    async def enter(self, scope: MutableMapping[str, Any]) -> bool:
        """Take a place for a request and mark its scope; return False if none was free in time."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            return False
        scope[_KEY] = ResponseSlot(self._places, asyncio.get_running_loop())
        return True


def holds_large_body(scope: Mapping[str, Any]) -> bool:
    """Return whether a request has taken a place."""
    return _KEY in scope


def leave_large_body(scope: Mapping[str, Any]) -> None:
    """Release a request's place, if it has one. Idempotent."""
    place: ResponseSlot | None = scope.get(_KEY)
    if place is not None:
        place.leave()
