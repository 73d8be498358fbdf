"""Provides the connections shared with other machines: Redis and an object store.

They are imported and opened on first use; without ``MOCHI_JOURNAL_URL`` there is no cluster, and
neither library is ever imported.
"""

import os
from functools import cached_property
from typing import TYPE_CHECKING

from cluster_app.settings import ClusterSettings
from mochi_project.principal import DEFAULT_OWNER

if TYPE_CHECKING:
    from cluster_app.objects.store import ObjectStore
    from cluster_app.redis.connection import RedisConnection
    from cluster_app.redis.hub import Hub
    from cluster_app.redis.leases import LeaseOwners
    from cluster_app.redis.pump import Pumps

POOL_VARIABLE = "_MOCHI_POOL"
"""The variable with the id of the pool of web processes, whose parent declares dead ones dead."""


class Cluster:
    """Holds the connections of one process to the stores that all machines share.

    Args:
        settings: The configuration, with a ``journal_url``.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings

    @cached_property
    def connection(self) -> "RedisConnection":
        """The Redis connection."""
        from cluster_app.redis.connection import RedisConnection  # noqa: PLC0415 - an extra

        url = self._settings.journal_url
        assert url is not None  # noqa: S101 - else there is no cluster
        return RedisConnection(url)

    @cached_property
    def owners(self) -> "LeaseOwners":
        """The leases of processes, shared by all storages."""
        from cluster_app.redis.leases import LeaseOwners  # noqa: PLC0415 - an extra

        pool = os.environ.get(POOL_VARIABLE)
        name = process_name(pool, os.getpid()) if pool else ""
        return LeaseOwners(self.connection, self._settings.lease_seconds, name=name)

    def release(self) -> None:
        """Release the lease of this process, which has stopped. Blocks briefly."""
        if "owners" in self.__dict__:
            self.owners.release()

    @cached_property
    def pumps(self) -> "Pumps":
        """The connections for writing journals, one for each event loop."""
        from cluster_app.redis.pump import Pumps  # noqa: PLC0415 - an extra

        return Pumps(self.connection.address)

    async def close_pumps(self) -> None:
        """Close the pump of the running event loop, after all turns have ended."""
        if "pumps" in self.__dict__:
            self.pumps.close()

    @cached_property
    def hub(self) -> "Hub":
        """The thread that follows journals and signals."""
        from cluster_app.redis.hub import Hub  # noqa: PLC0415 - an extra

        return Hub(self.connection)

    @cached_property
    def objects(self) -> "ObjectStore | None":
        """The object store of sessions; None if they are files."""
        from cluster_app.objects.store import ObjectStore  # noqa: PLC0415 - an extra

        url = self._settings.sessions_url
        return None if url is None else ObjectStore(url)

    def objects_of(self, owner: str) -> "ObjectStore | None":
        """Return the object store of an owner's data; None if they are files."""
        if self.objects is None or owner == DEFAULT_OWNER:
            return self.objects
        return self.objects.under(f"users/{owner}")


def process_name(pool: str, process: int) -> str:
    """Return the lease name of a process started by the pool with this name."""
    return f"{pool}x{process}"


def build_cluster(settings: ClusterSettings) -> Cluster | None:
    """Build the cluster's connections; return None for a single machine."""
    return None if settings.journal_url is None else Cluster(settings)
