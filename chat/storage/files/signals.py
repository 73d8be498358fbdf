"""Signals to a turn in another process: one small file each, in a directory that owners watch.

``{directory}/{turn_id}.{kind}``, which holds the version. Its owner removes it when it has acted,
so the directory is empty as a rule and the cost of watching it does not depend on how many turns
run. Signals of other kinds and of newer versions are left alone.
"""

import asyncio
import os
import re
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

from chat.storage.files.watcher import PathWatcher
from sessions_app.store.atomic import (
    PRIVATE_FILE,
    make_private_directory,
    raise_if_unwritable,
    read_regular,
)

REST_SECONDS = 10.0
VERSION = 1
"""Of signals. Those of version 0 were empty; it changes when one of a kind means something else."""
VERSION_LIMIT = 16
_OPEN = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

SignalKind = Literal["cancel", "detach", "confirm"]
KINDS: frozenset[str] = frozenset(get_args(SignalKind))
_OURS = re.compile(rf"[0-9a-f]{{20}}\.(?:{'|'.join(KINDS)})", re.ASCII)


class TurnSignals:
    """Sends signals to turns of other processes and receives those to one's own."""

    def __init__(self, directory: Path, watcher: PathWatcher) -> None:
        self._directory = directory
        self._watcher = watcher

    def send(self, turn_id: str, kind: SignalKind) -> None:
        """Leave a signal for the turn's owner; sending it twice is sending it once. Blocks.

        Raises:
            StorageError: The disk takes no signal.
        """
        path = self._directory / f"{turn_id}.{kind}"
        try:
            make_private_directory(self._directory, durable=False)
            descriptor = os.open(path, _OPEN, PRIVATE_FILE)
            try:
                with suppress(OSError):  # on a full disk it stays empty, which says the same
                    os.write(descriptor, b"%d\n" % VERSION)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise_if_unwritable(error)
            raise

    def withdraw(self, turn_id: str, kind: SignalKind) -> None:
        """Take back a signal that nobody took. Blocks."""
        _forget(self._directory / f"{turn_id}.{kind}")

    def is_waiting(self, turn_id: str, kind: SignalKind) -> bool:
        """Whether the owner has not taken the signal yet. Blocks."""
        return (self._directory / f"{turn_id}.{kind}").exists()

    def sweep(self, older_than_seconds: float) -> None:
        """Remove signals to turns that died before they took them. Blocks.

        Whatever else lies there is left alone: the directory may be a link to another one.
        """
        newest = time.time() - older_than_seconds
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in self._directory.iterdir():
                if not _OURS.fullmatch(path.name):
                    continue
                with suppress(FileNotFoundError):  # taken just now
                    status = path.lstat()
                    if not stat.S_ISREG(status.st_mode) or status.st_mtime > newest:
                        continue
                    if _is_known(path):
                        path.unlink()

    def take(self, turn_ids: set[str]) -> list[tuple[str, str]]:
        """Return and remove the signals to these turns: [(turn id, kind), ...]. Blocks."""
        taken = []
        with suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            for entry in entries:
                turn_id, _, kind = entry.name.partition(".")
                if turn_id in turn_ids and _is_known(Path(entry.path)):
                    taken.append((turn_id, kind))
                    _forget(Path(entry.path))
        return taken

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed``, in another thread, when there may be signals; return how to stop."""
        return self._watcher.watch(self._directory, changed)


def _forget(path: Path) -> None:
    """Remove a signal that was obeyed or is not needed; a read-only disk keeps it until a sweep.

    Its turn must not wait for the disk: obeying a signal again changes nothing.
    """
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _is_known(path: Path) -> bool:
    """Whether the file is a signal that is understood here; an empty one is an older server's."""
    if path.suffix[1:] not in KINDS:
        return False
    try:
        version = read_regular(path, limit=VERSION_LIMIT).strip()
    except OSError:
        return False
    return version in {b"", b"%d" % VERSION}


class SignalInbox:
    """Hands the signals to this process's turns to ``obey``, while there are such turns.

    A turn is expected from before others can see it until it has ended; a signal that comes before
    the turn can obey is kept for it.
    """

    def __init__(self, signals: TurnSignals, obey: Callable[[str, str], None]) -> None:
        self._signals = signals
        self._obey = obey
        self._expected: set[str] = set()
        self._obeying: set[str] = set()
        self._early: list[tuple[str, str]] = []
        self._stop_watching: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._used = False
        self._lock = threading.Lock()
        self._changed = False
        self._reading: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Watch for signals, those that are there first; called on the loop.

        Call it when a turn is expected. The watching ends some time after the last expected turn:
        turns that follow each other shall not wake the watcher's thread at their beginning.
        """
        if self._loop is asyncio.get_running_loop():
            return
        self.close()
        self._loop = loop = asyncio.get_running_loop()
        self._stop_watching = self._signals.watch(
            lambda: loop.is_closed() or loop.call_soon_threadsafe(self._look)
        )
        loop.call_later(REST_SECONDS, self._rest)

    def _rest(self) -> None:
        """Stop watching if no turn was expected for a while."""
        with self._lock:
            used, self._used = bool(self._expected) or self._used, False
        if used and self._loop is not None:
            self._loop.call_later(REST_SECONDS, self._rest)
        else:
            self.close()

    def close(self) -> None:
        """Stop watching; ``open`` begins again."""
        if self._stop_watching is not None:
            self._stop_watching()
        self._stop_watching = self._loop = None

    def expect(self, turn_id: str) -> None:
        """Take the turn's signals from now on. May be called from a thread."""
        with self._lock:
            self._expected.add(turn_id)
            self._used = True

    def ready(self, turn_id: str) -> None:
        """Let the turn obey, first what came before; called on the loop."""
        with self._lock:
            self._obeying.add(turn_id)
            early = [signal for signal in self._early if signal[0] == turn_id]
            self._early = [signal for signal in self._early if signal[0] != turn_id]
        for signal in early:
            self._deliver(*signal)

    def forget(self, turn_id: str) -> None:
        """Take no more signals to the turn. May be called from a thread."""
        with self._lock:
            self._expected.discard(turn_id)
            self._obeying.discard(turn_id)
            self._early = [signal for signal in self._early if signal[0] != turn_id]

    def _look(self) -> None:
        self._changed = True
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while self._changed:
            self._changed = False
            if self._expected:
                for signal in await asyncio.to_thread(self._signals.take, self._awaited()):
                    self._deliver(*signal)

    def _awaited(self) -> set[str]:
        with self._lock:
            return set(self._expected)

    def _deliver(self, turn_id: str, kind: str) -> None:
        with self._lock:
            obeys = turn_id in self._obeying
            if not obeys and turn_id in self._expected:
                self._early.append((turn_id, kind))
        if obeys:
            self._obey(turn_id, kind)
