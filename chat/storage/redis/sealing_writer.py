"""Writes journals to Redis synchronously: for dead turns, and where no event loop runs."""

import errno
import re
from collections.abc import Callable
from typing import NamedTuple

from chat.storage.journal import Fenced, do_nothing
from chat.storage.redis.journal_scripts import APPEND, FENCED, Script, TurnKeys
from chat.storage.redis.pump import Pumps
from sessions_app.store.redis.connection import RedisConnection

_END = re.compile(r'\{"n":\d+,"event":"done",')


def ends(lines: str) -> bool:
    """Return whether the last line is a journal's end."""
    return bool(_END.match(lines, lines.rfind("\n", 0, -1) + 1))


class WriterContext(NamedTuple):
    """Holds all that the writers of one storage share.

    Attributes:
        connection: Where the journals are.
        pumps: Send what is appended on an event loop.
        retention_seconds: For how long a journal stays after its end.
        timeout_seconds: For how long a turn bears that nothing is kept.
        unsaid: What could not be said in a thread, because Redis was away.
    """

    connection: RedisConnection
    pumps: Pumps
    retention_seconds: int
    timeout_seconds: float
    unsaid: list[Callable[[], None]]


class SealingWriter:
    """Appends to a journal that was taken over, or where no event loop runs: at once. Blocks."""

    keeps_at_once = True

    def __init__(self, context: WriterContext, keys: TurnKeys, epoch: int) -> None:
        self._append = Script(context.connection, APPEND)
        self._keys = keys
        self._epoch = epoch
        self._number = 0
        self._seconds = context.retention_seconds

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        """Write whole lines, which are kept when this returns. A journal that is gone stays so.

        Raises:
            Fenced: The journal was taken over.
            StorageFull, StorageUnavailable: Redis does not take them now.
        """
        if self._epoch:
            self._number += 1
            entry = f"{self._epoch}-{self._number}"
            last = "1" if ends(lines) else "0"
            args = (entry, lines, last, self._keys.member, self._seconds)
            if self._append(*self._keys.all, args=args) == FENCED:
                raise Fenced(errno.EPERM, "the journal was taken over")
        kept()

    def when_troubled(self, call: Callable[[OSError], None]) -> None:
        """Ignore the call: ``append`` raises what is wrong."""

    async def flushed(self) -> None:
        """Return at once: what was appended is kept."""

    def sync(self) -> None:
        """Do nothing: what is kept is kept as safely as Redis does that."""

    def close(self) -> None:
        """Stop writing."""
