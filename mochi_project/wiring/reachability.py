"""Checks whether shared stores can be reached and written to, and caches the results."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, Literal, TypeVar

import msgspec

from mochi_project.wiring.cluster import Cluster
from sessions_app.errors import StorageError, StorageFull, StorageUnavailable

Reachability = Literal["files", "ok", "unreachable", "unwritable", "full"]
"""``unwritable`` and ``full``: it answers, but takes no writes, so no turn can run."""

ANSWER_SECONDS = 1.5
JOURNAL_FRESH_SECONDS = 0.5
STORE_FRESH_SECONDS = 5.0
"""The cache time for the object store, which charges for each request."""

FAILURES_FRESH_SECONDS = 30.0
"""The cache time for listings of the object store, which cost several requests."""

QUEUE_FRESH_SECONDS = 1.0

NO_OBJECT = "is-it-there"
"""A key that does not exist, requested to check that the store responds."""


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
    """Checks the stores of sessions and journals.

    Args:
        cluster: The stores; None if all are files.
        failing: Returns the failed summaries.
        oldest_due_seconds: Returns how long the oldest due summary has been waiting.

    Attributes:
        cluster: The stores.
    """

    def __init__(
        self,
        cluster: Cluster | None,
        failing: Callable[[], Sequence[object]],
        oldest_due_seconds: Callable[[], float] = float,
    ) -> None:
        self.cluster = cluster
        self._failing = failing
        self._oldest_due_seconds = oldest_due_seconds
        seconds = FAILURES_FRESH_SECONDS if cluster and cluster.objects else 0.0
        self._failures = CachedCheck(self._count_failures, 0, fresh_seconds=seconds)
        self._queue_age: CachedCheck[float] = CachedCheck(
            self._oldest_due, math.nan, fresh_seconds=max(seconds, QUEUE_FRESH_SECONDS)
        )
        self._journal = CachedCheck(
            self._ask_journal, JournalState("unreachable"), fresh_seconds=JOURNAL_FRESH_SECONDS
        )
        self._sessions: CachedCheck[Reachability] = CachedCheck(
            self._ask_store, "unreachable", fresh_seconds=STORE_FRESH_SECONDS
        )

    async def require(self) -> None:
        """Check that all shared stores can be reached and written to.

        Raises:
            StorageUnavailable: One can't be reached, or takes no writes.
            StorageFull: One is full.
        """
        journal, sessions = await asyncio.gather(self.journal(), self.sessions())
        _require_usable("MOCHI_JOURNAL_URL", journal.state)
        _require_usable("MOCHI_SESSIONS_URL", sessions)

    async def journal(self) -> JournalState:
        """Return the state of Redis and the number of workers."""
        if self.cluster is None:
            return JournalState("files")
        return await self._journal.answer()

    async def sessions(self) -> Reachability:
        """Return whether the object store responds and takes writes."""
        if self.cluster is None or self.cluster.objects is None:
            return "files"
        return await self._sessions.answer()

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

    def _ask_journal(self) -> JournalState:
        from cluster_app.redis.task_queue import count_workers  # noqa: PLC0415 - an extra

        assert self.cluster is not None  # noqa: S101 - or it is not asked
        connection = self.cluster.connection
        try:
            workers = count_workers(connection)
        except StorageError:
            return JournalState("unreachable")
        return JournalState(_tried(connection.require_writes), workers)

    def _ask_store(self) -> Reachability:
        from cluster_app.objects.probe import require_writes  # noqa: PLC0415 - an extra
        from cluster_app.objects.store import ObjectMissing  # noqa: PLC0415 - an extra

        assert self.cluster is not None  # noqa: S101 - or it is not asked
        store = self.cluster.objects
        assert store is not None  # noqa: S101 - as above
        try:
            store.head_bytes(NO_OBJECT, 1)
        except ObjectMissing:
            pass
        except StorageError:
            return "unreachable"
        # A write costs more than a read, and each turn makes some: one is tried after a failure.
        return _tried(partial(require_writes, store)) if store.last_write_failed else "ok"

    def _count_failures(self) -> int:
        try:
            return len(self._failing())
        except StorageError:  # reported as the state of the store
            return 0


def _tried(write: Callable[[], object]) -> Reachability:
    """Return whether a store that responds takes a write."""
    try:
        write()
    except StorageFull:
        return "full"
    except StorageError:
        return "unwritable"
    return "ok"


def _require_usable(name: str, state: Reachability) -> None:
    match state:
        case "unreachable":
            raise StorageUnavailable(f"{name} can't be reached just now.")
        case "unwritable":
            raise StorageUnavailable(f"{name} takes no writes just now.")
        case "full":
            raise StorageFull(f"{name} is full.")
