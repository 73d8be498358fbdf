"""Writes the journal of a turn of this process into a stream of Redis, by a pump."""

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from chat.storage.journal import (
    Fenced,
    JournalAway,
    JournalLost,
    do_nothing,
    ignore_trouble,
)
from chat.storage.redis.journal_scripts import FINISH, LEAVE, TOP, Script, TurnKeys
from chat.storage.redis.pump import Pump, pack
from chat.storage.redis.sealing_writer import SealingWriter, WriterContext, ends
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

TAIL_BYTES = 64 * 1024
"""Of what is kept already, to be sent again when a replica took over that did not have it."""
AGAIN_SECONDS = 1.0

_TAKEN = "equal or smaller"
_PASSING = ("LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF", "BUSY", "NOSCRIPT")

closing: set[str] = set()
"""The turns of this process that are written no more, which Redis may not know yet."""

Unkept = tuple[int, bytes, Callable[[], None]]
"""The number of an entry, the command that adds it, and what to call then."""


class PumpedWriter:
    """Writes the journal of a turn of this process, on its event loop.

    Lines are sent and kept in order. What is not kept yet stays at hand, and the newest of what is:
    when Redis was away, its newest entry tells what has to be sent (again, docs/decisions/0065).

    Args:
        context: What it shares with others.
        turn_id: The turn.
        keys: Its keys.
        owner: The process that owns the turn.

    Attributes:
        pump: What it sends by, from the first lines on.
    """

    keeps_at_once = False

    def __init__(self, context: WriterContext, turn_id: str, keys: TurnKeys, owner: str) -> None:
        self._context = context
        self._turn_id = turn_id
        self._keys = keys
        self._owner = owner
        self._stream = keys.stream.encode()
        self._number = 0
        self._last = ""
        self._unkept: deque[Unkept] = deque()
        self._tail: deque[Unkept] = deque()
        self._tail_bytes = 0
        self._beyond_tail = 0  # the newest entry that is kept and not at hand any more
        self._trouble: OSError | None = None
        self._troubled: Callable[[OSError], None] = ignore_trouble
        self.pump: Pump | None = None
        self._at_once: SealingWriter | None = None
        self._is_settled = True  # whether it is known what Redis has
        self._is_closed = False
        self._flushing: list[asyncio.Future[None]] = []
        self._oldest = 0
        self._waited = 0.0
        self._pause: float | None = None  # before it is said again that we have let go
        self._answered = self._take_answer

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        """Send whole lines; ``kept`` is called on the loop once Redis has them.

        Raises:
            OSError: Nothing can be kept any more.
        """
        pump = self.pump
        if pump is None or self._trouble is not None:
            pump = self._ready(lines, kept)
            if pump is None:
                return
        self._last = lines
        self._number = number = self._number + 1
        command = pack((b"XADD", self._stream, b"NOMKSTREAM", b"1-%d" % number, b"l", lines))
        self._unkept.append((number, command, kept))
        if self._is_settled:
            pump.send(command, self._answered)

    def when_troubled(self, call: Callable[[OSError], None]) -> None:
        """Have ``call`` called once it turns out that nothing can be kept any more."""
        self._troubled = call

    async def flushed(self) -> None:
        """Wait until all lines are kept.

        Raises:
            OSError: They can't be.
        """
        if self._unkept:
            done = asyncio.get_running_loop().create_future()
            self._flushing.append(done)
            await done
        if self._trouble is not None and not isinstance(self._trouble, JournalLost):
            raise self._trouble

    def sync(self) -> None:
        """Do nothing: what is kept is kept as safely as Redis does that."""

    def close(self) -> None:
        """Stop writing. A journal without an end is marked as left: its turn is over all the same.

        That is sent for as long as Redis is away.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if not self._unkept:
            self._let_go()

    # Beginning

    def _ready(self, lines: str, kept: Callable[[], None]) -> Pump | None:
        """Return the pump to send by; None when the lines have been dealt with."""
        if isinstance(self._trouble, JournalLost):
            kept()
            return None
        if self._trouble is not None:
            raise self._trouble
        if self._at_once is None:
            self._begin()
        if self._at_once is not None:
            self._last = lines
            self._at_once.append(lines, kept)
        return self.pump

    def _begin(self) -> None:
        """Find out whether an event loop runs here."""
        try:
            self.pump = self._context.pumps.here()
        except RuntimeError:
            self._at_once = SealingWriter(self._context, self._keys, 1)
        else:
            self.pump.add(self)

    # What Redis answers

    def _take_answer(self, answer: Any) -> None:
        """Take the answer to the oldest lines that are not kept."""
        if not self._is_settled:
            return  # what Redis has is being found out
        if answer.__class__ is bytes:
            self._keep()
        else:
            self._take_refusal(answer)

    def _keep(self) -> None:
        """Take the oldest lines for kept."""
        item = self._unkept.popleft()
        self._tail.append(item)
        self._tail_bytes += len(item[1])
        if self._tail_bytes > TAIL_BYTES:
            self._shorten_tail()
        try:
            item[2]()
        except Exception:
            logger.exception("what follows from keeping an event failed")
        if not self._unkept and (self._flushing or self._is_closed):
            self._drained()

    def _shorten_tail(self) -> None:
        """Let go of what was kept first."""
        while self._tail_bytes > TAIL_BYTES:
            self._beyond_tail, old, _ = self._tail.popleft()
            self._tail_bytes -= len(old)

    def _drained(self) -> None:
        """Tell whoever waits that nothing is left to keep."""
        flushing, self._flushing = self._flushing, []
        for done in flushing:
            if not done.done():
                done.set_result(None)
        if self._is_closed:
            self._let_go()

    def _take_refusal(self, answer: Any) -> None:
        """Deal with what is not the id of a new entry."""
        text = str(answer)
        if answer is None or text.startswith("WRONGTYPE"):
            self._lose()
        elif _TAKEN in text:  # by us, a connection ago, or by who took the journal over
            self._ask_for_top()
        elif text.startswith("OOM"):
            self._fail(OSError(errno.ENOSPC, "redis is full"))
        elif "exhausted" in text:
            self._fail(Fenced(errno.EPERM, "the journal was closed"))
        elif self.pump is not None:
            self._is_settled = False
            self.pump.drop(text.partition(" ")[0])

    def _take_answer_again(self, answer: Any) -> None:
        """Take the answer to lines that were kept once before."""
        if self._is_settled and answer.__class__ is not bytes:
            self._take_refusal(answer)

    # What is sent again

    def lost(self) -> None:
        """Send nothing until it is known what Redis has."""
        self._is_settled = False

    def found(self) -> None:
        """Ask what Redis has."""
        if self._is_closed and not self._unkept:
            self._let_go()
        elif self._trouble is None:
            self._ask_for_top()

    def _ask_for_top(self) -> None:
        self._is_settled = False
        if self.pump is not None:
            self.pump.send(pack(("EVAL", TOP, 1, self._stream)), self._take_top)

    def _take_top(self, answer: Any) -> None:
        """Learn of the newest entry: what it does not cover is sent again."""
        if self._trouble is not None or self.pump is None:
            return
        if isinstance(answer, Exception):
            self.pump.drop(str(answer).partition(" ")[0])
            return
        if answer is None:
            self._lose()
            return
        epoch, _, number = answer.partition(b"-")
        newest = int(number)
        if int(epoch) != 1:
            self._fail(Fenced(errno.EPERM, "the journal was taken over"))
        elif newest < self._beyond_tail:
            self._lose()  # what is missing is not at hand, and nobody must see a gap
        else:
            while self._unkept and self._unkept[0][0] <= newest:
                self._keep()
            self._is_settled = True
            for number, command, _ in self._tail:
                if number > newest:
                    self.pump.send(command, self._take_answer_again)
            for _, command, _ in self._unkept:
                self.pump.send(command, self._answered)

    # Trouble

    def aged(self, seconds: float) -> None:
        """Give up lines that have waited for too long, and say again that we have let go."""
        if self._pause is not None:
            self._pause -= seconds
            if self._pause <= 0:
                self._let_go()
        if not self._unkept:
            self._oldest = 0
        elif self._unkept[0][0] != self._oldest:
            self._oldest, self._waited = self._unkept[0][0], 0.0
        else:
            self._waited += seconds
            if self._waited >= self._context.timeout_seconds:
                self._fail(JournalAway(errno.ETIMEDOUT, "redis does not keep what is sent"))

    def _fail(self, error: OSError) -> None:
        """Keep nothing more."""
        self._stop_sending(error)
        self._unkept.clear()
        self._troubled(error)
        self._drained()

    def _lose(self) -> None:
        """Go on without a journal, for those who listen in this process."""
        logger.warning("journal_lost", extra={"turn_id": self._turn_id})
        self._stop_sending(JournalLost(errno.ENOENT, "redis has lost the journal"))
        self._troubled(JournalLost(errno.ENOENT, "redis has lost the journal"))
        unkept = list(self._unkept)
        self._unkept.clear()
        for _, _, kept in unkept:
            kept()
        self._drained()

    def _stop_sending(self, error: OSError) -> None:
        self._trouble = error
        self._is_settled = False
        self._tail.clear()
        self._tail_bytes = 0

    # The end

    def _let_go(self) -> None:
        """Say that nothing more comes."""
        closing.add(self._turn_id)
        self._pause = None
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._let_go_at_once()
            return
        if self.pump is None:
            self._begin()
        if self.pump is not None and self.pump.is_connected:
            self.pump.send(pack(("EVAL", *self._last_words())), self._take_end)

    def _last_words(self) -> tuple[str | int, ...]:
        if self._trouble is None and ends(self._last):
            seconds = self._context.retention_seconds
            return (FINISH, 4, *self._keys.all, self._keys.member, seconds)
        return (LEAVE, 1, self._keys.mark, self._owner)

    def _take_end(self, answer: Any) -> None:
        if isinstance(answer, Exception):  # it has no memory for it, say
            self._pause = AGAIN_SECONDS
        elif self.pump is not None:
            self.pump.remove(self)
            closing.discard(self._turn_id)

    def _let_go_at_once(self) -> None:
        """Say it from a thread."""
        script, count, *rest = self._last_words()
        keys, args = rest[: int(count)], rest[int(count) :]
        try:
            Script(self._context.connection, str(script))(*map(str, keys), args=tuple(args))
        except StorageError:
            logger.warning(
                "a journal can't be marked as left, redis is away", extra={"turn_id": self._turn_id}
            )
            self._context.unsaid.append(self._let_go_at_once)
        else:
            closing.discard(self._turn_id)
