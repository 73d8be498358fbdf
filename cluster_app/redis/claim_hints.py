"""Stores claim hints in a Redis hash; if it is lost, claims are found when sessions are used.

``{prefix}claimed`` maps ``{session} {turn}`` to ``{owner} {started_at}``. A session may have
several hints: of competing turns only one gets the claim, and each removes its own hint.
"""

import logging
import threading
from collections.abc import Sequence

from cluster_app.objects.claim_hints import ClaimHint
from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageUnavailable

logger = logging.getLogger(__name__)


class RedisClaimHints:
    """Stores claim hints in Redis; implements ``ClaimHints``.

    Hints that could not be removed while Redis was unreachable are removed by the next call.

    Args:
        connection: The Redis connection, with the storage's key prefix.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._key = connection.key("claimed")
        self._lock = threading.Lock()
        self._stale: set[str] = set()

    def note(self, hint: ClaimHint) -> None:
        """Store a hint before its claim is written; raises ``StorageUnavailable``."""
        with self._connection.translated():
            self._connection.client.hset(
                self._key,
                _field(hint.session_id, hint.turn_id),
                f"{hint.owner} {hint.started_at}",
            )

    def clear(self, session_id: str, turn_id: str) -> None:
        """Remove a hint, or do so later if Redis is unreachable."""
        with self._lock:
            self._stale.add(_field(session_id, turn_id))
        try:
            self._remove_stale()
        except StorageUnavailable:
            logger.warning(
                "redis is unreachable, a claim hint will be removed later",
                extra={"session_id": session_id, "turn_id": turn_id},
            )

    def all(self) -> Sequence[ClaimHint]:
        """Return all hints; raises ``StorageUnavailable``."""
        self._remove_stale()
        with self._connection.translated():
            found = self._connection.client.hgetall(self._key)
        hints = (_hint(_text(field), _text(value)) for field, value in found.items())
        return [hint for hint in hints if hint is not None]

    def _remove_stale(self) -> None:
        with self._lock:
            stale = list(self._stale)
        if stale:
            with self._connection.translated():
                self._connection.client.hdel(self._key, *stale)
            with self._lock:
                self._stale.difference_update(stale)


def _field(session_id: str, turn_id: str) -> str:
    return f"{session_id} {turn_id}"


def _hint(field: str, value: str) -> ClaimHint | None:
    """Decode the hint of a field; return None if it is invalid."""
    session_id, _, turn_id = field.partition(" ")
    owner, _, started_at = value.partition(" ")
    return ClaimHint(session_id, turn_id, owner, started_at) if turn_id and owner else None


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode("utf-8", "replace")
