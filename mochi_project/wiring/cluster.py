"""Holds what a process shares with other machines: Redis, and an object store.

Nothing is imported or opened before it is used; without ``MOCHI_JOURNAL_URL`` there is no cluster,
and neither library is ever imported.
"""

import os
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from mochi_project.configuration.config import MochiSettings

if TYPE_CHECKING:
    from chat.storage.redis.hub import Hub
    from chat.storage.redis.pump import Pumps
    from sessions_app.store.objects.store import ObjectStore
    from sessions_app.store.redis.connection import RedisConnection
    from sessions_app.store.redis.leases import LeaseOwners

POOL_VARIABLE = "_MOCHI_POOL"
"""Names the parent of web processes, which condemns those of them that died."""

AGENTS = "a:"
EPHEMERAL = "e:"
"""Parts of the keys of agents' sessions, and of those that are not saved, behind the prefix."""


class Cluster:
    """The connections of one process to what all machines share.

    Args:
        settings: The configuration, with a ``journal_url``.
    """

    def __init__(self, settings: MochiSettings) -> None:
        self._settings = settings

    @cached_property
    def connection(self) -> "RedisConnection":
        """The connections to Redis."""
        from sessions_app.store.redis.connection import RedisConnection  # noqa: PLC0415 - an extra

        url = self._settings.journal_url
        assert url is not None  # noqa: S101 - else there is no cluster
        return RedisConnection(url, replicas=self._settings.journal_replicas)

    @cached_property
    def owners(self) -> "LeaseOwners":
        """The processes that live, this one included: all storages have the same ones."""
        from sessions_app.store.redis.leases import LeaseOwners  # noqa: PLC0415 - an extra

        pool = os.environ.get(POOL_VARIABLE)
        name = process_name(pool, os.getpid()) if pool else ""
        return LeaseOwners(self.connection, self._settings.lease_seconds, name=name)

    def release(self) -> None:
        """Let others know at once that this process has stopped; blocks for moments."""
        if "owners" in self.__dict__:
            self.owners.release()

    @cached_property
    def pumps(self) -> "Pumps":
        """The connections by which journals are written, one for each event loop."""
        from chat.storage.redis.pump import Pumps  # noqa: PLC0415 - an extra

        return Pumps(self.connection.address, replicas=self.connection.replicas)

    def close_pumps(self) -> None:
        """End what the running event loop writes journals by, once no turn writes any."""
        if "pumps" in self.__dict__:
            self.pumps.close()

    @cached_property
    def hub(self) -> "Hub":
        """The thread that follows journals and signals."""
        from chat.storage.redis.hub import Hub  # noqa: PLC0415 - an extra

        return Hub(self.connection)

    @cached_property
    def objects(self) -> "ObjectStore | None":
        """The object store in which sessions are kept; None where they are files."""
        from sessions_app.store.objects.store import ObjectStore  # noqa: PLC0415 - an extra

        url = self._settings.sessions_url
        return None if url is None else ObjectStore(url)


def process_name(pool: str, process: int) -> str:
    """Return the name of a process that was started by the pool with this name."""
    return f"{pool}x{process}"


def build_cluster(settings: MochiSettings) -> Cluster | None:
    """Build what the process shares with others; None for a server of one machine."""
    return None if settings.journal_url is None else Cluster(settings)


def build_clock(cluster: Cluster | None) -> Callable[[], float]:
    """Build the clock of what nodes share, which is one for all of them."""
    if cluster is None:
        return time.time
    from chat.storage.redis.clock import RedisClock  # noqa: PLC0415 - an extra

    now = RedisClock(cluster.connection)
    return lambda: now().timestamp()
