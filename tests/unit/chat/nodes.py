"""Several processes that share sessions and journals, and nothing else but a person's answers."""

import asyncio
from pathlib import Path

from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.objects.store import ObjectStore
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.hub import Hub
from cluster_app.redis.journals import RedisTurnJournal
from cluster_app.redis.leases import LeaseOwners
from cluster_app.redis.session_index import RedisSessionIndex
from tests.contract.memory_journal import MemoryJournal
from tests.contract.memory_repository import MemoryOwners, MemorySessionRepository
from tests.unit.chat.conftest import House, NoTools


class Node(House):
    """One process; it has a name, and shares what another one keeps."""

    def __init__(
        self, data_dir: Path, name: str, *, beside: "Node | None" = None, toolset=None, **how
    ):
        self.owners = MemoryOwners(name, beside.owners.dead if beside else None)
        shared = MemorySessionRepository(self.owners, beside=beside.repository if beside else None)
        self.repository = shared
        self.repository_type = lambda *_, **__: shared
        journal = MemoryJournal(self.owners.lives, beside=beside.journal if beside else None)
        super().__init__(data_dir, toolset or NoTools(), journal=journal, **how)

    def at_each_step(self, call):
        """Have ``call`` called with the name of each step, before others can see it."""
        self.repository.reach = self.journal.reach = call


class ClusterNode(House):
    """One process of a cluster: sessions are objects, and what lives is in Redis."""

    def __init__(self, data_dir: Path, connection: RedisConnection, store: ObjectStore, **how):
        self.owners = LeaseOwners(connection)
        self.hub = Hub(connection)
        journal = RedisTurnJournal(
            connection, owners=self.owners, hub=self.hub, retention_seconds=600
        )
        repository = self.repository = ObjectSessionRepository(
            store.under("sessions"),
            deleted=store.under("deleted"),
            owners=self.owners,
            index=RedisSessionIndex(connection, store.under("sessions")),
            is_over=journal.was_closed,
        )
        self.repository_type = lambda *_, **__: repository
        super().__init__(data_dir, NoTools(), journal=journal, **how)

    async def aclose(self) -> None:
        """End its turns and let go of what it shares."""
        await self.turns.shutdown(grace_seconds=0)
        self.journal.close()
        await asyncio.to_thread(self.owners.release)
