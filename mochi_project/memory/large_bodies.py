"""Bounds how many large bodies of requests are held at a time (docs/decisions/0059).

A place is taken while a body is received, and left as soon as it has been read as JSON, by who
reads it: the answer to it may stream for minutes.
"""

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

from mochi_project.memory.large_answers import Place

MOST = 4
WAIT_SECONDS = 10.0

_KEY = "mochi.large_body"


class LargeBodies:
    """Limits how many large bodies are held at a time; others wait.

    Args:
        most: How many are held.
    """

    def __init__(self, most: int = MOST) -> None:
        self._places = asyncio.Semaphore(most)

    async def enter(self, scope: MutableMapping[str, Any]) -> bool:
        """Take a place for a request, and note it there; return whether there was one in time."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            return False
        scope[_KEY] = Place(self._places, asyncio.get_running_loop())
        return True


def holds_large_body(scope: Mapping[str, Any]) -> bool:
    """Return whether a request has taken a place."""
    return _KEY in scope


def leave_large_body(scope: Mapping[str, Any]) -> None:
    """Leave a request's place to others, if it has one; nothing the second time."""
    place: Place | None = scope.get(_KEY)
    if place is not None:
        place.leave()
