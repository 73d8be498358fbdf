"""Tells whether the stores of sessions and journals can be reached and written to."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from mochi_project.app import current_pool
from sessions_app.errors import StorageError

Reachability = Literal["files", "ok", "unreachable", "unwritable", "full"]
"""``unwritable`` and ``full``: it answers, but takes no writes, so no turn can run."""

ANSWER_SECONDS = 1.5
QUEUE_FRESH_SECONDS = 1.0
OBJECTS_FRESH_SECONDS = 30.0
"""The time for which what was listed of an object store is used: it costs several requests."""


class JournalState(msgspec.Struct, frozen=True):
    """The state of Redis.

    Attributes:
        state: Whether it responds and takes writes.
        workers: The number of living workers on all machines.
    """

    state: Reachability
    workers: int = 0


T = TypeVar("T")


class CachedCheck(Generic[T]):
    """Caches the result of a blocking query, which runs at most once at a time.

    Concurrent callers wait for the same result, or get the last one.

    Args:
        ask: The query, called in a thread.
        unanswered: The result if there is none in time.
        fresh_seconds: How long a result stays valid.
        wait_seconds: How long to wait for a result.
    """

    def __init__(
        self,
        ask: Callable[[], T],
        unanswered: T,
        *,
        fresh_seconds: float,
        wait_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._ask = ask
        self._unanswered = unanswered
        self._fresh_seconds = fresh_seconds
        self._wait_seconds = wait_seconds
        self._answer: T | None = None
        self._answered_at = 0.0
        self._asking: asyncio.Task[T] | None = None

    async def answer(self) -> T:
        """Return the current or cached result."""
        age = time.monotonic() - self._answered_at
        if self._answer is not None and age < self._fresh_seconds:
            return self._answer
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(asyncio.to_thread(self._ask))
        asking = self._asking
        await asyncio.wait({asking}, timeout=self._wait_seconds)
        if not asking.done():
            return self._unanswered
        self._answer, self._answered_at = asking.result(), time.monotonic()
        return self._answer


class Stores:
    """Tells about stores that are files of this machine; the base of those that are shared.

    Attributes:
        are_shared: Whether other machines use them, too.
    """

    are_shared = False

    def check(self) -> list[str]:
        """Return warnings about shared stores, one sentence each. Blocks.

        Raises:
            ConfigurationError: A store can't be used; the message says why.
        """
        return []

    async def require(self) -> None:
        """Check that all shared stores can be reached and written to.

        Raises:
            StorageUnavailable: One can't be reached, or takes no writes.
            StorageFull: One is full.
        """

    async def journal(self) -> JournalState:
        """Return the state of Redis and the number of workers."""
        return JournalState("files")

    async def sessions(self) -> Reachability:
        """Return whether the object store responds and takes writes."""
        return "files"


class SummaryChecks:
    """Tells how the summaries of an owner come along.

    Args:
        failing: Returns the failed summaries.
        oldest_due_seconds: Returns how long the oldest due summary has been waiting.
        fresh_seconds: How long what these return may be used.
    """

    def __init__(
        self,
        failing: Callable[[], Sequence[object]],
        oldest_due_seconds: Callable[[], float] = float,
        *,
        fresh_seconds: float = 0.0,
    ) -> None:
        self._failing = failing
        self._oldest_due_seconds = oldest_due_seconds
        self._failures = CachedCheck(self._count_failures, 0, fresh_seconds=fresh_seconds)
        self._queue_age: CachedCheck[float] = CachedCheck(
            self._oldest_due, math.nan, fresh_seconds=max(fresh_seconds, QUEUE_FRESH_SECONDS)
        )

    async def failures(self) -> int:
        """Return the number of failed summaries; 0 if unknown."""
        return await self._failures.answer()

    async def queue_age(self) -> float | None:
        """Return how many seconds the oldest due summary has been waiting; None if unknown."""
        age = await self._queue_age.answer()
        return None if math.isnan(age) else age

    def _oldest_due(self) -> float:
        try:
            return self._oldest_due_seconds()
        except StorageError:
            return math.nan

    def _count_failures(self) -> int:
        try:
            return len(self._failing())
        except StorageError:  # reported as the state of the store
            return 0


async def queue_age() -> float | None:
    """Return how many seconds the oldest due summary has been waiting; None if unknown.

    That is of those of the owners whose services are loaded.
    """
    checks = [each.made(SummaryChecks) for each in current_pool().loaded().values()]
    ages = await asyncio.gather(*(check.queue_age() for check in checks if check is not None))
    return None if None in ages else max((age for age in ages if age is not None), default=0.0)
