"""Stores the change log in a file that every process appends to (docs/decisions/0073).

::

    {directory}/log        one line per change, after the header of ``AppendLog``
    {directory}/log.1      the previous log
    {directory}/listened   an empty file; its mtime is when ``open`` was last called

The log exists only while there are listeners; without it, a change costs one failed open. The id of
a change is the name of its log and the offset after its line.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from chat.storage.change_log import Change, ChangeKind
from chat.storage.files.watcher import PathWatcher
from sessions_app.store.append_log import AppendLog, Position
from sessions_app.store.atomic import make_private_directory, raise_if_unwritable, write_atomically
from sessions_app.store.locks import FileLocks

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 20
"""The maximum size of a log, some 15,000 changes."""
CHANGE_SECONDS = 0.1
"""The interval at which a process with listeners polls for changes by other processes."""
LISTENED_SECONDS = 600.0
LOCK_SECONDS = 10.0
LINE_BYTES = 160

_LINE = re.compile(rb"([a-z_]{1,40}) ([0-9a-f]{10}) ([0-9a-zA-Z_-]{0,100})")


class ChangeWatcher(PathWatcher):
    """Watches the logs of all owners of data, with one thread."""

    def __init__(self) -> None:
        super().__init__(CHANGE_SECONDS)


class FileChangeLog:
    """Stores changes in a directory; implements ``ChangeLog``.

    Args:
        directory: The directory of the files; created by ``open``.
        watcher: Watches the log for changes by other processes, while there are listeners.
        most_bytes: The size at which the log is rotated.
    """

    def __init__(
        self, directory: Path, watcher: PathWatcher, *, most_bytes: int = MOST_BYTES
    ) -> None:
        self._directory = str(directory)
        self._path = directory / "log"
        # After a power cut the end of a log may be lost, so its offsets could be used again: a log
        # of an earlier boot is not continued.
        self._log = AppendLog(
            self._path, most_bytes=most_bytes, line_bytes=LINE_BYTES, epoch=_boot()
        )
        self._listened = directory / "listened"
        self._watcher = watcher
        self._locks = FileLocks(directory / ".locks")
        self._lock = threading.Lock()
        self._followers: set[Callable[[], object]] = set()

    def note(self, kind: ChangeKind, session_id: str, turn_id: str = "") -> None:
        """Append a change after it was made; almost free without listeners."""
        try:
            self._log.append(f"{kind} {session_id} {turn_id}\n".encode(), creates=False)
        except FileNotFoundError:  # the usual case: no listeners
            return
        except OSError as error:
            logger.warning("the change log can't be written to, starting a new one: %s", error)
            with suppress(OSError):
                self._log.remove()
        with self._lock:
            followers = tuple(self._followers)
        for changed in followers:
            with suppress(RuntimeError):  # its event loop was closed just now
                changed()

    def open(self) -> str:
        """Keep the log for the next ten minutes; return the id of the newest change.

        Raises:
            StorageError: The directory can't be written to.
        """
        try:
            make_private_directory(self._directory, durable=False)
            with self._locks.held("log", timeout_seconds=LOCK_SECONDS):
                write_atomically(self._listened, b"", durable=False)
                return _id(self._log.start())
        except OSError as error:
            raise_if_unwritable(error)
            raise

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed``, in any thread, when there may be changes; return a stop function.

        It is called at once after changes of this process, and again when the watcher sees them.
        """
        with self._lock:
            self._followers.add(changed)
        unwatch = self._watcher.watch(self._path, changed)

        def stop() -> None:
            unwatch()
            with self._lock:
                self._followers.discard(changed)

        return stop

    def read(self, after: str, most: int) -> Sequence[Change] | None:
        """Return up to ``most`` changes after the one with this id; None if it is unknown."""
        name, _, offset = after.partition("-")
        lines = self._log.read(Position(name, int(offset or 0)), most)
        if lines is None:
            return None
        changes = [_change(line, position) for line, position in lines]
        known = [change for change in changes if change is not None]
        return known if len(known) == len(changes) else None

    def sweep(self) -> None:
        """Delete the log if there have been no listeners for ten minutes."""
        with suppress(FileNotFoundError):
            if self._is_listened_to():
                return
            with self._locks.held("log", timeout_seconds=LOCK_SECONDS):
                if not self._is_listened_to():
                    self._log.remove()
                    self._listened.unlink()

    def _is_listened_to(self) -> bool:
        return self._listened.stat().st_mtime > time.time() - LISTENED_SECONDS


def _id(position: Position) -> str:
    return f"{position.log}-{position.offset}"


def _change(line: bytes, position: Position) -> Change | None:
    """Return the change in a line; None if there is none."""
    parts = _LINE.fullmatch(line)
    if parts is None:
        return None
    kind, session_id, turn_id = (part.decode() for part in parts.groups())
    return Change(id=_id(position), kind=kind, session_id=session_id, turn_id=turn_id)


@cache
def _boot() -> str:
    """Return the first 8 digits of the kernel's boot id, or zeros without one."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii")[:8]
    return "0" * 8
