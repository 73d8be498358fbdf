"""Checks whether the stores that machines share can be reached and written to."""

import asyncio
from collections.abc import Callable
from functools import partial

from cluster_app.connections import Cluster
from mochi_project.reachability import CachedCheck, JournalState, Reachability, Stores
from sessions_app.errors import StorageError, StorageFull, StorageUnavailable

JOURNAL_FRESH_SECONDS = 0.5
STORE_FRESH_SECONDS = 5.0
"""The cache time for the object store, which charges for each request."""

NO_OBJECT = "is-it-there"
"""A key that does not exist, requested to check that the store responds."""


class SharedStores(Stores):
    """Checks Redis and the object store.

    Args:
        cluster: The connections.

    Attributes:
        cluster: As above.
    """

    are_shared = True

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._journal = CachedCheck(
            self._ask_journal, JournalState("unreachable"), fresh_seconds=JOURNAL_FRESH_SECONDS
        )
        self._sessions: CachedCheck[Reachability] = CachedCheck(
            self._ask_store, "unreachable", fresh_seconds=STORE_FRESH_SECONDS
        )

    def check(self) -> list[str]:
        """Return warnings about the stores, one sentence each. Blocks."""
        from cluster_app.shared_stores import check_shared_stores  # noqa: PLC0415 - at the start

        return check_shared_stores(self.cluster)

    async def require(self) -> None:
        """Check that the stores can be reached and written to."""
        journal, sessions = await asyncio.gather(self.journal(), self.sessions())
        _require_usable("MOCHI_JOURNAL_URL", journal.state)
        _require_usable("MOCHI_SESSIONS_URL", sessions)

    async def journal(self) -> JournalState:
        """Return the state of Redis and the number of workers."""
        return await self._journal.answer()

    async def sessions(self) -> Reachability:
        """Return whether the object store responds and takes writes."""
        return "files" if self.cluster.objects is None else await self._sessions.answer()

    def _ask_journal(self) -> JournalState:
        from cluster_app.redis.task_queue import count_workers  # noqa: PLC0415 - an extra

        connection = self.cluster.connection
        try:
            workers = count_workers(connection)
        except StorageError:
            return JournalState("unreachable")
        return JournalState(_tried(connection.require_writes), workers)

    def _ask_store(self) -> Reachability:
        from cluster_app.objects.probe import require_writes  # noqa: PLC0415 - an extra
        from cluster_app.objects.store import ObjectMissing  # noqa: PLC0415 - an extra

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
