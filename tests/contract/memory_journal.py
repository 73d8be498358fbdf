"""A journal in memory whose lines are kept a moment after they were appended, as elsewhere."""

import asyncio
import itertools
import threading
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec

from chat.storage.journal import (
    PASSAGE_BYTES,
    Entry,
    Fenced,
    JournalLost,
    JournalSlice,
    OwnerExpired,
    do_nothing,
)


class Lines:
    """One turn's lines; who may write them is whoever took them last."""

    def __init__(self, watchers: dict[int, Callable[[], object]], owner: str = "") -> None:
        self.owner = owner
        self.lock = threading.Lock()
        self.content = b""
        self.epoch = 1
        self.is_open = True
        self.changed_at = time.monotonic()
        self.watchers = watchers


class MemoryWriter:
    """Keeps lines in a task, one append after the other; at once where no event loop runs."""

    is_synchronous = False

    def __init__(
        self,
        lines: Lines,
        reach: Callable[[str], object] | None = None,
        arrive: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._reach = reach or _pass
        self._arrive = arrive or _arrive
        self._lines = lines
        self._epoch = lines.epoch
        self._waiting: deque[tuple[str, Callable[[], None]]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self.failure: OSError | None = None
        self.is_lost = False

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        self._check()
        if self.is_lost:
            kept()
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._keep(lines, kept)
            return
        self._waiting.append((lines, kept))
        if self._pump is None or self._pump.done():
            self._pump = loop.create_task(self._keep_all())

    def on_failure(self, call: Callable[[OSError], None]) -> None:
        self.troubled = call

    async def flushed(self) -> None:
        if self._pump is not None:
            await asyncio.shield(self._pump)
        self._check()

    def sync(self) -> None:
        pass

    def close(self) -> None:
        if self._lines.epoch == self._epoch:
            self._lines.is_open = False

    def fail(self, error: OSError) -> None:
        self.failure = error

    def lose(self) -> None:
        """Keep nothing more, and say so, as a journal that its store has lost."""
        self.is_lost = True
        self.troubled(JournalLost())

    def _check(self) -> None:
        if self._lines.epoch != self._epoch:
            raise Fenced
        if self.failure is not None:
            raise self.failure

    async def _keep_all(self) -> None:
        while self._waiting:
            await self._arrive()
            try:
                self._keep(*self._waiting.popleft())
            except OSError as error:
                self.failure = error
                self._waiting.clear()
                return

    def _keep(self, lines: str, kept: Callable[[], None]) -> None:
        self._reach("write a line")
        with self._lines.lock:
            self._check()
            self._lines.content += lines.encode("ascii")
            self._lines.changed_at = time.monotonic()
        self._reach("have written a line")
        kept()
        for changed in list(self._lines.watchers.values()):
            changed()


class MemoryJournal:
    """The journals of one process's memory; positions are bytes.

    Args:
        lives: Whether the owner of a turn lives.
        beside: The journals of another process, which these are, too.

    Attributes:
        reach: Called with the name of each step that another process can see, before it is made.
        arrive: Awaited before lines are kept that were written on an event loop.
        looks: How many times it was asked about anything but its lines.
    """

    def __init__(
        self,
        lives: Callable[[str], bool] = lambda _: True,
        *,
        beside: "MemoryJournal | None" = None,
    ) -> None:
        self._lives = lives
        self.reach: Callable[[str], object] = _pass
        self.arrive: Callable[[], Awaitable[object]] = _arrive
        self.looks = 0
        self._turns: dict[tuple[str, str], Lines] = beside._turns if beside else {}
        self._watchers: defaultdict[tuple[str, str], dict[int, Callable[[], object]]]
        self._watchers = beside._watchers if beside else defaultdict(dict)
        self._broken: dict[str, set[str]] = defaultdict(set)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.writers: list[MemoryWriter] = []
        self.condemned: set[str] = set()

    def open(self, session_id: str, turn_id: str, *, owner: str) -> MemoryWriter:
        self.reach("open a journal")
        if owner in self.condemned or not self._lives(owner):
            raise OwnerExpired(owner)
        with self._lock:
            if (session_id, turn_id) in self._turns:
                raise FileExistsError(turn_id)
            watchers = self._watchers[session_id, turn_id]
            lines = self._turns[session_id, turn_id] = Lines(watchers, owner)
        self.writers.append(MemoryWriter(lines, self._say, self.arrive))
        return self.writers[-1]

    def take_over(self, session_id: str, turn_id: str) -> MemoryWriter:
        self.reach("take a journal over")
        lines = self._turns.get((session_id, turn_id)) or Lines({})
        with lines.lock:
            lines.epoch += 1
            lines.is_open = False
            lines.content = lines.content[: lines.content.rfind(b"\n") + 1]
            writer = MemoryWriter(lines, self._say)
        self.reach("read a journal")
        return writer

    def reopen(self, session_id: str, turn_id: str, *, owner: str) -> MemoryWriter:
        self.reach("reopen a journal")
        lines = self._turns.get((session_id, turn_id))
        if lines is None:
            raise FileNotFoundError(turn_id)
        if owner in self.condemned or not self._lives(owner):
            raise OwnerExpired(owner)
        with lines.lock:
            if lines.is_open and self._lives(lines.owner):
                raise Fenced
            lines.epoch += 1
            lines.owner, lines.is_open = owner, True
            lines.content = lines.content[: lines.content.rfind(b"\n") + 1]
            self.writers.append(MemoryWriter(lines, self._say, self.arrive))
        return self.writers[-1]

    def _say(self, step: str) -> None:
        self.reach(step)

    def read(self, session_id: str, turn_id: str, position: int = 0) -> JournalSlice:
        lines = self._turns.get((session_id, turn_id))
        entries: list[Entry] = []
        while lines is not None and not entries:
            whole = lines.content[position : position + PASSAGE_BYTES]
            whole = whole[: whole.rfind(b"\n") + 1]
            if not whole and len(lines.content) - position >= PASSAGE_BYTES:
                whole = lines.content[position : lines.content.find(b"\n", position) + 1]
            if not whole:
                break
            position += len(whole)
            entries = list(_entries(whole))
        return JournalSlice(entries, position)

    def watch(
        self, session_id: str, turn_id: str, changed: Callable[[], object]
    ) -> Callable[[], None]:
        number = next(self._numbers)
        watchers = self._watchers[session_id, turn_id]
        watchers[number] = changed
        changed()

        def stop() -> None:
            watchers.pop(number, None)

        return stop

    def has_ended(self, session_id: str, turn_id: str) -> bool:
        lines = self._turns.get((session_id, turn_id))
        if lines is None or not lines.content.endswith(b"\n"):
            return False
        last = lines.content.rsplit(b"\n", 2)[-2]
        return any(entry.event == "done" for entry in _entries(last))

    def is_being_written(self, session_id: str, turn_id: str) -> bool:
        lines = self._turns.get((session_id, turn_id))
        self.looks += 1
        return lines is not None and lines.is_open and self._lives(lines.owner)

    def was_closed(self, session_id: str, turn_id: str) -> bool:
        lines = self._turns.get((session_id, turn_id))
        return lines is not None and not (lines.is_open and self._lives(lines.owner))

    def turns(self, session_id: str) -> Sequence[str]:
        return sorted(turn for session, turn in self._turns if session == session_id)

    def all_turns(self) -> set[str]:
        return {turn for _, turn in self._turns}

    def unended_sessions(self) -> Sequence[str]:
        return sorted(
            {
                key[0]
                for key in list(self._turns)
                if not self.has_ended(*key) and not self.is_being_written(*key)
            }
        )

    def adopt(self, session_id: str, turn_id: str) -> None:
        pass

    def set_aside(self, session_id: str, turn_id: str, is_sound: Callable[[Entry], bool]) -> bool:
        return False

    def copy_aside(self, session_id: str, turn_id: str) -> None:
        self._broken[session_id].add(f"{session_id}/{turn_id}")

    def move_aside(self, session_id: str, turn_id: str) -> None:
        self._turns.pop((session_id, turn_id), None)
        self.copy_aside(session_id, turn_id)

    def broken(self) -> Sequence[str]:
        return sorted(each for of_one in self._broken.values() for each in of_one)

    def discard(self, session_id: str, turn_id: str) -> None:
        if not self.is_being_written(session_id, turn_id):
            self._turns.pop((session_id, turn_id), None)

    def discard_session(self, session_id: str) -> None:
        self._broken.pop(session_id, None)
        for turn_id in self.turns(session_id):
            self.discard(session_id, turn_id)

    def sweep(self, older_than_seconds: float) -> int:
        newest = time.monotonic() - older_than_seconds
        old = [
            key
            for key, lines in self._turns.items()
            if lines.changed_at <= newest and self.has_ended(*key)
        ]
        for key in old:
            self.discard(*key)
        return len(old)


def _entries(lines: bytes) -> Iterator[Entry]:
    for line in lines.split(b"\n"):
        try:
            yield msgspec.json.decode(line, type=Entry)
        except msgspec.MsgspecError:
            continue


async def _arrive() -> None:
    """Take a moment, as lines do on their way."""
    for _ in range(3):
        await asyncio.sleep(0)


def _pass(step: str) -> None:
    """Do nothing at a step."""
