"""Holds what a process shares with other machines: Redis, and an object store.

Nothing is imported or opened before it is used; without ``MOCHI_JOURNAL_URL`` there is no cluster,
and neither library is ever imported.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from mochi_project.configuration.config import MochiSettings

if TYPE_CHECKING:
    from chat.storage.redis.hub import Hub
    from sessions_app.store.objects.store import ObjectStore
    from sessions_app.store.redis.connection import RedisConnection

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


def build_cluster(settings: MochiSettings) -> Cluster | None:
    """Build what the process shares with others; None for a server of one machine."""
    return None if settings.journal_url is None else Cluster(settings)
