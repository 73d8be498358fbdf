"""Bounds how many large answers are made and sent at a time (docs/decisions/0024)."""

import asyncio
from collections import deque
from typing import Self

from sessions_app.errors import MochiError

LARGE_BYTES = 8 * 1024 * 1024
MOST = 4
WAIT_SECONDS = 5.0


class TooManyLargeAnswers(MochiError):
    """Four answers over 8 MiB are being sent already, to clients that take their time."""

    code = "TOO_MANY_LARGE_ANSWERS"
    retryable = True

    def __init__(self) -> None:
        super().__init__("Too many large answers are being sent already. Try again shortly.")


class LargeAnswers:
    """Limits how many large answers are made at a time; others wait.

    Args:
        most: How many are made, and sent, at a time.
        wait_seconds: How long others wait before they are refused.
    """

    def __init__(self, most: int = MOST, wait_seconds: float = WAIT_SECONDS) -> None:
        self._places = asyncio.Semaphore(most)
        self._wait_seconds = wait_seconds

    @property
    def is_full(self) -> bool:
        """Return whether a further one would have to wait."""
        return self._places.locked()

    async def enter(self) -> "Place":
        """Take a place, waiting for one if there is none.

        Raises:
            TooManyLargeAnswers: There was none for too long.
        """
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise TooManyLargeAnswers from None
        return Place(self._places, asyncio.get_running_loop())


class Place:
    """Holds a large answer's place among those made at a time, until it is left."""

    def __init__(self, places: asyncio.Semaphore, loop: asyncio.AbstractEventLoop) -> None:
        self._places: asyncio.Semaphore | None = places
        self._loop = loop

    def leave(self) -> None:
        """Leave the place to others, from any thread; nothing the second time."""
        places, self._places = self._places, None
        if places is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(places.release)


class LargeBody:
    """Yields the pieces of a large answer; leaves its place when all are sent or it is closed."""

    def __init__(self, pieces: deque[bytes], place: Place) -> None:
        self._pieces = pieces
        self._place = place

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece."""
        if not self._pieces:
            self.close()
            raise StopAsyncIteration
        piece = self._pieces.popleft()
        await asyncio.sleep(0)  # a client that reads fast keeps the loop from no other
        return piece

    def close(self) -> None:
        """Let go of what was not sent."""
        self._pieces.clear()
        self._place.leave()

    async def aclose(self) -> None:
        """Let go of what was not sent."""
        self.close()
