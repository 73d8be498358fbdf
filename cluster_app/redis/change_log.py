"""Stores the change log as a Redis stream, ``{prefix}changes``, which expires without listeners.

Listeners create it; writers append only if it exists.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from chat.storage.change_log import Change, ChangeKind
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.hub import Hub
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

MOST_CHANGES = 20_000
LISTENED_MS = 600_000
RETRY_SECONDS = 1.0
"""The pause after a failure before Redis is tried again, so that not every change waits for it."""
_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}", re.ASCII)

_OPEN = """
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('XADD', KEYS[1], '*', 'k', '') end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1]
"""
_RESTART = """
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if not newest then return end
local time = tonumber(string.match(newest[1], '^%d+'))
redis.call('DEL', KEYS[1])
redis.call('XADD', KEYS[1], string.format('%.0f-0', time + 1), 'k', '')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
"""
"""Begin a log anew, with an entry that wakes its listeners: its id comes after those before."""


class RedisChangeLog:
    """Stores changes in Redis; implements ``ChangeLog``.

    Args:
        connection: The Redis connection.
        hub: Follows the stream for this process's listeners.
    """

    def __init__(self, connection: RedisConnection, hub: Hub) -> None:
        self._connection = connection
        self._hub = hub
        self._key = connection.key("changes")
        self._lock = threading.Lock()
        self._has_gap = False
        self._retry_at = 0.0

    def note(self, kind: ChangeKind, session_id: str, turn_id: str = "") -> None:
        """Append a change after it was made; one round trip, a no-op without listeners."""
        if self._has_gap:  # readers get the gap instead
            self._restart_if_incomplete()
            return
        fields: Any = {"k": kind, "s": session_id, "t": turn_id}
        try:
            with self._connection.translated():
                self._connection.client.xadd(
                    self._key, fields, maxlen=MOST_CHANGES, approximate=True, nomkstream=True
                )
        except StorageError:
            logger.warning("a change could not be logged; the change log will be restarted")
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._has_gap = True

    def open(self) -> str:
        """Create the log or renew its TTL of ten minutes; return the id of the newest change.

        Raises:
            StorageUnavailable: Redis cannot be reached.
        """
        self._restart_if_incomplete()
        newest = self._connection.run(_OPEN, self._key, args=[LISTENED_MS])
        return str(newest.decode("ascii"))

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed``, in any thread, when there may be changes; return a stop function."""
        return self._hub.follow(self._key, "$", lambda _: changed())

    def read(self, after: str, most: int) -> Sequence[Change] | None:
        """Return up to ``most`` changes after the one with this id; None if it is unknown.

        Raises:
            StorageUnavailable: Redis cannot be reached.
        """
        if not _ID.fullmatch(after):
            return None
        with self._connection.translated():
            pipeline = self._connection.client.pipeline(transaction=True)
            pipeline.xrange(self._key, after, after)
            pipeline.xrange(self._key, f"({after}", "+", most)
            found, entries = pipeline.execute()
        if not found:
            return None
        return [_change(entry_id, fields) for entry_id, fields in entries]

    def sweep(self) -> None:
        """Restart a log that lacks changes; the stream itself expires in Redis."""
        self._restart_if_incomplete()

    def _restart_if_incomplete(self) -> None:
        """Begin a log that lacks changes anew, if Redis can be reached: readers start over."""
        with self._lock:
            if not self._has_gap or time.monotonic() < self._retry_at:
                return
            # Before the restart: changes noted from now on belong to the next log, if any.
            self._has_gap = False
            self._retry_at = time.monotonic() + RETRY_SECONDS
        try:
            self._connection.run(_RESTART, self._key, args=[LISTENED_MS])
        except StorageError:
            self._has_gap = True


def _change(entry_id: bytes, fields: Any) -> Change:
    kind, session_id, turn_id = (fields.get(key, b"").decode() for key in (b"k", b"s", b"t"))
    return Change(id=entry_id.decode(), kind=kind, session_id=session_id, turn_id=turn_id)
