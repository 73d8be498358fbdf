"""Writes journals to Redis synchronously: to seal dead turns, or without an event loop."""

import errno
import re
from collections.abc import Callable
from typing import NamedTuple

from chat.storage.journal import END_LINE, Fenced, do_nothing
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.journal_scripts import APPEND, FENCED, TurnKeys
from cluster_app.redis.pump import Pumps

_END = re.compile(r"\d+".join(map(re.escape, END_LINE)))


def ends(lines: str) -> bool:
    """Return whether the last line is the ``done`` event that ends a journal."""
    return bool(_END.match(lines, lines.rfind("\n", 0, -1) + 1))


class WriterContext(NamedTuple):
    """Holds what all journal writers of one storage share.

    Attributes:
        connection: The Redis connection.
        pumps: Send appended lines from event loops.
        retention_seconds: The TTL of a journal after its end.
        timeout_seconds: How long appended lines may stay unacknowledged before the turn fails.
        deferred: Calls that failed in a thread while Redis was unreachable, to be retried.
        unreported_ends: The turns whose writer is closed, which Redis may not know yet.
    """

    connection: RedisConnection
    pumps: Pumps
    retention_seconds: int
    timeout_seconds: float
    deferred: list[Callable[[], None]]
    unreported_ends: set[str]


class SealingWriter:
    """Appends synchronously to a journal: one taken over, or without an event loop. Blocks."""

    is_synchronous = True

    def __init__(self, context: WriterContext, keys: TurnKeys, epoch: int) -> None:
        self._connection = context.connection
        self._keys = keys
        self._epoch = epoch
        self._number = 0
        self._seconds = context.retention_seconds

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        """Append whole lines; they are stored when this returns.

        A deleted or expired journal is not created again.

        Raises:
            Fenced: Another process took the journal over.
            StorageFull, StorageUnavailable: Redis did not store the lines.
        """
        if self._epoch:
            self._number += 1
            entry = f"{self._epoch}-{self._number}"
            last = "1" if ends(lines) else "0"
            args = (entry, lines, last, self._keys.member, self._seconds)
            if self._connection.run(APPEND, *self._keys.all, args=args) == FENCED:
                raise Fenced(errno.EPERM, "the journal was taken over")
        kept()

    def on_failure(self, call: Callable[[OSError], None]) -> None:
        """Ignore the callback: ``append`` raises errors itself."""

    async def flushed(self) -> None:
        """Return immediately: appended lines are stored already."""

    def sync(self) -> None:
        """Do nothing: durability is up to the persistence settings of Redis."""

    def close(self) -> None:
        """Stop writing."""
