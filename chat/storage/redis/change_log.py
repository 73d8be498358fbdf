"""Keeps the log of changes as a Redis stream, which expires while nobody listens.

``{prefix}changes`` is made by whoever listens; those who note a change add to it only if it is
there.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from chat.storage.change_log import Change, ChangeKind
from chat.storage.redis.hub import Entries, Hub
from sessions_app.errors import StorageError
from sessions_app.store.redis.connection import RedisConnection

logger = logging.getLogger(__name__)

MOST_CHANGES = 20_000
LISTENED_MS = 600_000
MEND_SECONDS = 1.0
"""After which pause Redis is asked again, where it was away: nobody's change waits for it twice."""
_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}", re.ASCII)

_OPEN = """
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('XADD', KEYS[1], '*', 'k', '') end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1]
"""


class RedisChangeLog:
    """Keeps the changes of one storage; implements ``ChangeLog``.

    Args:
        connection: Where the stream is.
        hub: Follows it for this process, while somebody listens.
    """

    def __init__(self, connection: RedisConnection, hub: Hub) -> None:
        self._connection = connection
        self._hub = hub
        self._key = connection.key("changes")
        self._lock = threading.Lock()
        self._has_gap = False
        self._mend_at = 0.0
        self._followers: dict[object, Callable[[], object]] = {}

    def note(self, kind: ChangeKind, session_id: str, turn_id: str = "") -> None:
        """Add a change, after it was made; one question to Redis where nobody listens."""
        if self._has_gap:  # which is told instead
            self._mend()
            return
        fields: Any = {"k": kind, "s": session_id, "t": turn_id}
        try:
            with self._connection.translated():
                self._connection.client.xadd(
                    self._key, fields, maxlen=MOST_CHANGES, approximate=True, nomkstream=True
                )
        except StorageError:
            logger.warning("the log of changes was not told of one, and is begun anew later")
            self._mend_at = time.monotonic() + MEND_SECONDS
            self._has_gap = True
        else:
            self._tell()

    def open(self) -> str:
        """Say that somebody listens, for ten minutes; return the id of the newest change.

        Raises:
            StorageUnavailable: Redis is away.
        """
        self._mend()
        with self._connection.translated():
            newest: Any = self._connection.script(_OPEN)(keys=[self._key], args=[LISTENED_MS])
        return str(newest.decode("ascii"))

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed``, in any thread, when there may be more; return how to stop that."""
        key = object()

        def received(_: Entries) -> None:
            changed()

        with self._lock:
            self._followers[key] = changed
        unfollow = self._hub.follow(self._key, "$", received)

        def stop() -> None:
            unfollow()
            with self._lock:
                self._followers.pop(key, None)

        return stop

    def read(self, after: str, most: int) -> Sequence[Change] | None:
        """Return the next changes after the one with this id; None where they are not known.

        Raises:
            StorageUnavailable: Redis is away.
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
        """Tell of changes that could not be noted; the stream ends by itself."""
        self._mend()

    def _mend(self) -> None:
        """Give a log up that lacks changes, once Redis is there: whoever reads it begins anew."""
        with self._lock:
            if not self._has_gap or time.monotonic() < self._mend_at:
                return
            # Before the log is gone: what is noted from here on is in the next one, if there is.
            self._has_gap = False
            self._mend_at = time.monotonic() + MEND_SECONDS
        try:
            with self._connection.translated():
                self._connection.client.delete(self._key)
        except StorageError:
            self._has_gap = True
        else:
            self._tell()

    def _tell(self) -> None:
        with self._lock:
            followers = tuple(self._followers.values())
        for changed in followers:
            with suppress(RuntimeError):  # its event loop was closed just now
                changed()


def _change(entry_id: bytes, fields: Any) -> Change:
    kind, session_id, turn_id = (fields.get(key, b"").decode() for key in (b"k", b"s", b"t"))
    return Change(id=entry_id.decode(), kind=kind, session_id=session_id, turn_id=turn_id)
