"""Finds the owners of data in an object store, and shares their visits among processes."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from cluster_app.objects.store import ObjectStore
from cluster_app.redis.connection import RedisConnection
from mochi_project.background.rounds import OwnerFolders
from mochi_project.configuration.app_settings import USERS
from mochi_project.principal import is_owner

VISIT_SECONDS = 86_400
"""The time between two visits of an owner: each lists objects, and stores charge for that."""


class SharedOwners(OwnerFolders):
    """Finds owners in an object store, each for one process a day. Blocks.

    Args:
        users: The directory with what this node keeps of each owner.
        objects: The object store.
        connection: The Redis connection.
    """

    def __init__(self, users: Path, objects: ObjectStore, connection: RedisConnection) -> None:
        super().__init__(users)
        self._objects = objects
        self._connection = connection

    def all(self) -> Sequence[str]:
        """Return all owners but ``default``."""
        return list(filter(is_owner, self._objects.folders(f"{USERS}/")))

    def to_visit(self, purpose: str) -> Iterable[str]:
        """Yield the owners whom no process has visited for the purpose for a day."""
        for owner in self.all():
            key = self._connection.root_key("visited", purpose, owner)
            with self._connection.translated():
                is_first = self._connection.client.set(key, 1, nx=True, ex=VISIT_SECONDS)
            if is_first:
                yield owner

    def unfinished(self) -> Sequence[str]:
        """Return nobody: the turns of dead processes are hinted (docs/decisions/0213)."""
        return ()
