"""Writes the journal of a turn of this process to a Redis stream, through a pump."""

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from chat.storage.journal import (
    Fenced,
    JournalLost,
    JournalTimedOut,
    do_nothing,
    ignore_error,
)
from cluster_app.redis.journal_scripts import FINISH, LEAVE, TOP, TurnKeys
from cluster_app.redis.pump import Pump, pack
from cluster_app.redis.sealing_writer import SealingWriter, WriterContext, ends
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

TAIL_BYTES = 64 * 1024
"""The size of the acknowledged entries kept in memory, to resend those a failover lost."""
RETRY_SECONDS = 1.0

_ID_TAKEN = "equal or smaller"

Unacknowledged = tuple[int, bytes, Callable[[], None]]
"""The number of an entry, the command that adds it, and the callback once it is stored."""


class PumpedWriter:
    """Writes the journal of a turn of this process, on its event loop.

    Lines are sent and stored in order. Unacknowledged entries stay in memory, and so do the newest
    acknowledged ones. After a reconnect, the newest entry in Redis tells which of them have to be
    sent again (docs/decisions/0065).

    Args:
        context: What the writers of the storage share.
        turn_id: The turn.
        keys: The turn's Redis keys.
        owner: The owner id of the process that runs the turn.
        epoch: Its epoch: 1 of the process that began the turn.

    Attributes:
        pump: Sends the commands; None before the first lines.
    """

    is_synchronous = False

    def __init__(
        self, context: WriterContext, turn_id: str, keys: TurnKeys, owner: str, epoch: int = 1
    ) -> None:
        self._context = context
        self._epoch = epoch
        self._turn_id = turn_id
        self._keys = keys
        self._owner = owner
        self._stream = keys.stream.encode()
        self._number = 0
        self._last = ""
        self._unacknowledged: deque[Unacknowledged] = deque()
        self._tail: deque[Unacknowledged] = deque()
        self._tail_bytes = 0
        self._newest_dropped = 0  # the newest acknowledged entry that is not in memory any more
        self._error: OSError | None = None
        self._on_failure: Callable[[OSError], None] = ignore_error
        self.pump: Pump | None = None
        self._sync_writer: SealingWriter | None = None
        self._is_in_sync = True  # whether it is known which entries Redis has
        self._is_closed = False
        self._flushing: list[asyncio.Future[None]] = []
        self._oldest = 0
        self._waited = 0.0
        self._pause: float | None = None  # before the end is sent again
        self._answered = self._take_answer

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        """Send whole lines; ``kept`` is called on the loop once Redis has stored them.

        Raises:
            OSError: The writer has failed; nothing more can be stored.
        """
        pump = self.pump
        if pump is None or self._error is not None:
            pump = self._begin_or_divert(lines, kept)
            if pump is None:
                return
        self._last = lines
        self._number = number = self._number + 1
        entry_id = b"%d-%d" % (self._epoch, number)
        command = pack((b"XADD", self._stream, b"NOMKSTREAM", entry_id, b"l", lines))
        self._unacknowledged.append((number, command, kept))
        if self._is_in_sync:
            pump.send(command, self._answered)

    def on_failure(self, call: Callable[[OSError], None]) -> None:
        """Register a callback for the error after which nothing more can be stored."""
        self._on_failure = call

    async def flushed(self) -> None:
        """Wait until all lines are stored.

        Raises:
            OSError: The writer has failed.
        """
        if self._unacknowledged:
            done = asyncio.get_running_loop().create_future()
            self._flushing.append(done)
            await done
        if self._error is not None and not isinstance(self._error, JournalLost):
            raise self._error

    def sync(self) -> None:
        """Do nothing: durability is up to the persistence settings of Redis."""

    def close(self) -> None:
        """Stop writing; mark a journal without an end as left, since its turn is over.

        The mark is retried until Redis has it.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if not self._unacknowledged:
            self._send_end()

    # Beginning

    def _begin_or_divert(self, lines: str, kept: Callable[[], None]) -> Pump | None:
        """Return the pump to send with, or None if the lines were handled without one."""
        if isinstance(self._error, JournalLost):
            kept()
            return None
        if self._error is not None:
            raise self._error
        if self._sync_writer is None:
            self._begin()
        if self._sync_writer is not None:
            self._last = lines
            self._sync_writer.append(lines, kept)
        return self.pump

    def _begin(self) -> None:
        """Use the pump of the running event loop, or a synchronous writer if none runs."""
        try:
            self.pump = self._context.pumps.here()
        except RuntimeError:
            self._sync_writer = SealingWriter(self._context, self._keys, self._epoch)
        else:
            self.pump.add(self)

    # Replies

    def _take_answer(self, answer: Any) -> None:
        """Handle the reply to the oldest unacknowledged lines."""
        if not self._is_in_sync:
            return  # the newest entry is being queried
        if answer.__class__ is bytes:
            self._acknowledge()
        else:
            self._take_refusal(answer)

    def _acknowledge(self) -> None:
        """Move the oldest unacknowledged entry to the tail and call its callback."""
        item = self._unacknowledged.popleft()
        self._tail.append(item)
        self._tail_bytes += len(item[1])
        if self._tail_bytes > TAIL_BYTES:
            self._shorten_tail()
        try:
            item[2]()
        except Exception:
            logger.exception("the callback of a stored event failed")
        if not self._unacknowledged and (self._flushing or self._is_closed):
            self._drained()

    def _shorten_tail(self) -> None:
        """Drop the oldest acknowledged entries from memory."""
        while self._tail_bytes > TAIL_BYTES:
            self._newest_dropped, old, _ = self._tail.popleft()
            self._tail_bytes -= len(old)

    def _drained(self) -> None:
        """Wake the waiting ``flushed`` calls; send the end if the writer is closed."""
        flushing, self._flushing = self._flushing, []
        for done in flushing:
            if not done.done():
                done.set_result(None)
        if self._is_closed:
            self._send_end()

    def _take_refusal(self, answer: Any) -> None:
        """Handle a reply that is not the id of a new entry."""
        text = str(answer)
        if answer is None or text.startswith("WRONGTYPE"):
            self._lose()
        elif _ID_TAKEN in text:  # by an earlier connection of ours, or by a takeover
            self._query_newest()
        elif text.startswith("OOM"):
            self._fail(OSError(errno.ENOSPC, "redis is full"))
        elif "exhausted" in text:
            self._fail(Fenced(errno.EPERM, "the journal was closed"))
        elif self.pump is not None:
            self._is_in_sync = False
            self.pump.drop(text.partition(" ")[0])

    def _take_resent_answer(self, answer: Any) -> None:
        """Handle the reply to lines that had been acknowledged before."""
        if self._is_in_sync and answer.__class__ is not bytes:
            self._take_refusal(answer)

    # Sending again

    def disconnected(self) -> None:
        """Send nothing until it is known which entries Redis has."""
        self._is_in_sync = False

    def connected(self) -> None:
        """Query the newest entry in Redis, or send the end of a closed journal."""
        if self._is_closed and not self._unacknowledged:
            self._send_end()
        elif self._error is None:
            self._query_newest()

    def _query_newest(self) -> None:
        self._is_in_sync = False
        if self.pump is not None:
            self.pump.send(pack(("EVAL", TOP, 1, self._stream)), self._take_newest)

    def _take_newest(self, answer: Any) -> None:
        """Acknowledge entries up to the newest one in Redis and send the later ones again."""
        if self._error is not None or self.pump is None:
            return
        if isinstance(answer, Exception):
            self.pump.drop(str(answer).partition(" ")[0])
            return
        if answer is None:
            self._lose()
            return
        epoch, _, number = answer.partition(b"-")
        newest = int(number)
        if int(epoch) != self._epoch:
            self._fail(Fenced(errno.EPERM, "the journal was taken over"))
        elif newest < self._newest_dropped:
            self._lose()  # the missing entries are not in memory, and readers must not see a gap
        else:
            while self._unacknowledged and self._unacknowledged[0][0] <= newest:
                self._acknowledge()
            self._is_in_sync = True
            for number, command, _ in self._tail:
                if number > newest:
                    self.pump.send(command, self._take_resent_answer)
            for _, command, _ in self._unacknowledged:
                self.pump.send(command, self._answered)

    # Failures

    def tick(self, seconds: float) -> None:
        """Fail if the oldest lines were not stored in time; retry sending the end."""
        if self._pause is not None:
            self._pause -= seconds
            if self._pause <= 0:
                self._send_end()
        if not self._unacknowledged:
            self._oldest = 0
        elif self._unacknowledged[0][0] != self._oldest:
            self._oldest, self._waited = self._unacknowledged[0][0], 0.0
        else:
            self._waited += seconds
            if self._waited >= self._context.timeout_seconds:
                self._fail(JournalTimedOut(errno.ETIMEDOUT, "redis did not store lines in time"))

    def _fail(self, error: OSError) -> None:
        """Drop unacknowledged lines and store nothing more."""
        self._stop_sending(error)
        self._unacknowledged.clear()
        self._on_failure(error)
        self._drained()

    def _lose(self) -> None:
        """Go on without a journal, for the listeners in this process."""
        logger.warning("journal_lost", extra={"turn_id": self._turn_id})
        self._stop_sending(JournalLost(errno.ENOENT, "redis has lost the journal"))
        self._on_failure(JournalLost(errno.ENOENT, "redis has lost the journal"))
        unacknowledged = list(self._unacknowledged)
        self._unacknowledged.clear()
        for _, _, kept in unacknowledged:
            kept()
        self._drained()

    def _stop_sending(self, error: OSError) -> None:
        self._error = error
        self._is_in_sync = False
        self._tail.clear()
        self._tail_bytes = 0

    # The end

    def _send_end(self) -> None:
        """Tell Redis that nothing more is written: the journal has ended, or was left."""
        self._context.unreported_ends.add(self._turn_id)
        self._pause = None
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._send_end_synchronously()
            return
        if self.pump is None:
            self._begin()
        if self.pump is not None and self.pump.is_connected:
            self.pump.send(pack(("EVAL", *self._end_command())), self._take_end)

    def _end_command(self) -> tuple[str | int, ...]:
        if self._error is None and ends(self._last):
            seconds = self._context.retention_seconds
            return (FINISH, 4, *self._keys.all, self._keys.member, seconds)
        return (LEAVE, 1, self._keys.mark, self._owner)

    def _take_end(self, answer: Any) -> None:
        if isinstance(answer, Exception):  # such as being out of memory
            self._pause = RETRY_SECONDS
        elif self.pump is not None:
            self.pump.remove(self)
            self._context.unreported_ends.discard(self._turn_id)

    def _send_end_synchronously(self) -> None:
        """Send the end from a thread without an event loop; defer it if Redis is unreachable."""
        script, count, *rest = self._end_command()
        keys, args = rest[: int(count)], rest[int(count) :]
        try:
            self._context.connection.run(str(script), *map(str, keys), args=args)
        except StorageError:
            logger.warning(
                "redis is unreachable, a journal will be marked as left later",
                extra={"turn_id": self._turn_id},
            )
            self._context.deferred.append(self._send_end_synchronously)
        else:
            self._context.unreported_ends.discard(self._turn_id)
