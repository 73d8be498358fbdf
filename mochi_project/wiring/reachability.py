"""Checks whether the stores that machines share can be reached, and caches the result."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from mochi_project.wiring.cluster import Cluster
from sessions_app.errors import StorageError, StorageUnavailable

Reachability = Literal["files", "ok", "unreachable"]

ANSWER_SECONDS = 1.5
JOURNAL_FRESH_SECONDS = 0.5
STORE_FRESH_SECONDS = 5.0
"""An object store takes money for each question."""

FAILURES_FRESH_SECONDS = 30.0
"""To list what is in a store takes more than one question, and more money."""

QUEUE_FRESH_SECONDS = 1.0

NO_OBJECT = "is-it-there"
"""A key that nothing has; to ask for it says that the store answers."""


class JournalState(msgspec.Struct, frozen=True):
    """The last answer of Redis.

    Attributes:
        state: Whether it answered.
        workers: How many workers live, on any machine.
    """

    state: Reachability
    workers: int = 0


T = TypeVar("T")


class Asked(Generic[T]):
    """Keeps the answer to a question that blocks, and asks it once at a time.

    Of many who want to know, one asks; the others wait for the same answer, or get the last one.

    Args:
        ask: Asks, in a thread.
        unanswered: The answer while there is none in time.
        fresh_seconds: For how long an answer holds.
        wait_seconds: For how long one is waited for.
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
        """Return the answer of now, or of a moment ago."""
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
    """Asks the stores of this process's sessions and journals.

    Args:
        cluster: The stores; None where all are files.
        failing: Returns the summaries that could not be made.
        oldest_due_seconds: Returns for how long the oldest due summary has waited.

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
        self._failures = Asked(self._count_failures, 0, fresh_seconds=seconds)
        self._queue_age: Asked[float] = Asked(
            self._oldest_due, math.nan, fresh_seconds=max(seconds, QUEUE_FRESH_SECONDS)
        )
        self._journal = Asked(
            self._ask_journal, JournalState("unreachable"), fresh_seconds=JOURNAL_FRESH_SECONDS
        )
        self._sessions: Asked[Reachability] = Asked(
            self._ask_store, "unreachable", fresh_seconds=STORE_FRESH_SECONDS
        )

    async def require(self) -> None:
        """Raise ``StorageUnavailable`` unless all that is shared can be reached."""
        journal, sessions = await asyncio.gather(self.journal(), self.sessions())
        if journal.state == "unreachable":
            raise StorageUnavailable("MOCHI_JOURNAL_URL can't be reached just now.")
        if sessions == "unreachable":
            raise StorageUnavailable("MOCHI_SESSIONS_URL can't be reached just now.")

    async def journal(self) -> JournalState:
        """Return whether Redis answers, and who works."""
        if self.cluster is None:
            return JournalState("files")
        return await self._journal.answer()

    async def sessions(self) -> Reachability:
        """Return whether the object store answers."""
        if self.cluster is None or self.cluster.objects is None:
            return "files"
        return await self._sessions.answer()

    async def failures(self) -> int:
        """Return how many summaries could not be made; 0 while nobody knows."""
        return await self._failures.answer()

    async def queue_age(self) -> float | None:
        """Return for how many seconds the oldest due summary has waited; None if nobody knows."""
        age = await self._queue_age.answer()
        return None if math.isnan(age) else age

    def _oldest_due(self) -> float:
        try:
            return self._oldest_due_seconds()
        except StorageError:
            return math.nan

    def _ask_journal(self) -> JournalState:
        from mochi_project.background.redis_queue import count_workers  # noqa: PLC0415 - an extra

        assert self.cluster is not None  # noqa: S101 - or it is not asked
        try:
            return JournalState("ok", count_workers(self.cluster.connection))
        except StorageError:
            return JournalState("unreachable")

    def _ask_store(self) -> Reachability:
        from sessions_app.store.objects.store import ObjectMissing  # noqa: PLC0415 - an extra

        assert self.cluster is not None  # noqa: S101 - or it is not asked
        store = self.cluster.objects
        assert store is not None  # noqa: S101 - as above
        try:
            store.head_bytes(NO_OBJECT, 1)
        except ObjectMissing:
            return "ok"
        except StorageError:
            return "unreachable"
        return "ok"

    def _count_failures(self) -> int:
        try:
            return len(self._failing())
        except StorageError:  # the state of the store says so
            return 0
