"""Limits how many large responses are sent concurrently (docs/decisions/0024)."""

import asyncio
from collections import deque
from typing import Self

from sessions_app.errors import MochiError

LARGE_BYTES = 8 * 1024 * 1024
MOST = 4
WAIT_SECONDS = 5.0


class TooManyLargeResponses(MochiError):
    """Four answers over 8 MiB are being sent already, to clients that take their time."""

    code = "TOO_MANY_LARGE_ANSWERS"
    retryable = True

    def __init__(self) -> None:
        super().__init__("Too many large answers are being sent already. Try again shortly.")


class LargeResponses:
    """Limits concurrent large responses; as many again wait, with what they have read.

    Args:
        most: The maximum number sent concurrently.
        wait_seconds: How long others wait before they are refused.
    """

    def __init__(self, most: int = MOST, wait_seconds: float = WAIT_SECONDS) -> None:
        self._places = asyncio.Semaphore(most)
        self._waiting = asyncio.Semaphore(most)
        self._wait_seconds = wait_seconds

    @property
    def is_full(self) -> bool:
        """Return whether another one would have to wait."""
        return self._places.locked()

    async def enter(self) -> "ResponseSlot":
        """Take a place, waiting for one if necessary.

        Raises:
            TooManyLargeResponses: No place became free in time, or as many wait already.
        """
        if self._waiting.locked():
            raise TooManyLargeResponses
        try:
            async with self._waiting, asyncio.timeout(self._wait_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise TooManyLargeResponses from None
        return ResponseSlot(self._places, asyncio.get_running_loop())


class ResponseSlot:
    """A place held by a large response until ``leave``."""

    def __init__(self, places: asyncio.Semaphore, loop: asyncio.AbstractEventLoop) -> None:
        self._places: asyncio.Semaphore | None = places
        self._loop = loop

    def leave(self) -> None:
        """Release the place, from any thread. Idempotent."""
        places, self._places = self._places, None
        if places is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(places.release)


class LargeBody:
    """Yields the pieces of a large response; releases its place at the end or when closed."""

    def __init__(self, pieces: deque[bytes], place: ResponseSlot) -> None:
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
        await asyncio.sleep(0)  # so that a fast client does not starve others
        return piece

    def close(self) -> None:
        """Discard unsent pieces and release the place."""
        self._pieces.clear()
        self._place.leave()

    async def aclose(self) -> None:
        """Discard unsent pieces and release the place."""
        self.close()
