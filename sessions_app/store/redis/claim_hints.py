"""Keeps hints at claims in a Redis hash; if they are lost, claims are found when sessions are used.

``{prefix}claimed`` maps ``{session} {turn}`` to ``{owner} {started_at}``. A session may have more:
of two turns that want it only one gets it, and each takes back its own.
"""

import logging
import threading
from collections.abc import Sequence

from sessions_app.errors import StorageUnavailable
from sessions_app.store.objects.claim_hints import ClaimHint
from sessions_app.store.redis.connection import RedisConnection

logger = logging.getLogger(__name__)


class RedisClaimHints:
    """Hints at the claims on one storage's sessions.

    What could not be taken back, because Redis was away, is taken back with the next call.

    Args:
        connection: The server, under the prefix of the storage.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._key = connection.key("claimed")
        self._lock = threading.Lock()
        self._stale: set[str] = set()

    def note(self, hint: ClaimHint) -> None:
        """Note a claim that is about to be made; ``StorageUnavailable``."""
        with self._connection.translated():
            self._connection.client.hset(
                self._key,
                _field(hint.session_id, hint.turn_id),
                f"{hint.owner} {hint.started_at}",
            )

    def clear(self, session_id: str, turn_id: str) -> None:
        """Forget a claim; later, where Redis is away."""
        with self._lock:
            self._stale.add(_field(session_id, turn_id))
        try:
            self._take_back()
        except StorageUnavailable:
            logger.warning(
                "a hint at a claim stays until Redis is back",
                extra={"session_id": session_id, "turn_id": turn_id},
            )

    def all(self) -> Sequence[ClaimHint]:
        """Return all hints; ``StorageUnavailable``."""
        self._take_back()
        with self._connection.translated():
            found = self._connection.client.hgetall(self._key)
        hints = (_hint(_text(field), _text(value)) for field, value in found.items())
        return [hint for hint in hints if hint is not None]

    def _take_back(self) -> None:
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
    """Return the hint of a field; None where others wrote what makes no sense here."""
    session_id, _, turn_id = field.partition(" ")
    owner, _, started_at = value.partition(" ")
    return ClaimHint(session_id, turn_id, owner, started_at) if turn_id and owner else None


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode("utf-8", "replace")
