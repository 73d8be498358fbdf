"""Journals at places that two processes of a test can name."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from chat.storage.files.journals import FileTurnJournal
from chat.storage.journal import TurnJournal
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.hub import Hub
from cluster_app.redis.journals import RedisTurnJournal


class PidOwners:
    """Owners that are named by their process: one that has ended does not live."""

    def mine(self) -> str:
        return str(os.getpid())

    def lives(self, owner: str) -> bool:
        if not owner.isdigit():
            return True
        try:
            os.kill(int(owner), 0)
        except ProcessLookupError:
            return False
        return True

    def holds(self) -> bool:
        return True

    def when_condemned(self, call: Callable[[str], None]) -> Callable[[], None]:
        """Nobody is."""
        return lambda: None


def place_in_redis(url: str, prefix: str) -> str:
    """Return the place of journals in a server, under a prefix."""
    return json.dumps([url, prefix])


def journal_at(place: str) -> TurnJournal:
    """Return the journals of a place."""
    if not place.startswith("["):
        return FileTurnJournal(Path(place))
    url, prefix = json.loads(place)
    connection = RedisConnection(url, prefix=prefix)
    return RedisTurnJournal(
        connection, owners=PidOwners(), hub=Hub(connection), retention_seconds=3600
    )
