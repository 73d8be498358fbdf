"""Stores signals to turns as small files in one directory, which the turns' processes watch.

The file ``{directory}/{turn_id}.{kind}`` contains the format version. The turn's owner removes it
when it takes the signal, so the directory is usually empty and the cost of watching does not depend
on the number of turns (docs/decisions/0002). Unknown kinds and newer versions are left alone.
"""

import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chat.storage.files.watcher import PathWatcher
from chat.storage.signals import KINDS, SignalKind
from sessions_app.store.atomic import (
    PRIVATE_FILE,
    make_private_directory,
    raise_if_unwritable,
    read_regular,
)

VERSION = 1
"""The format version, raised when the meaning of a kind changes. Version 0 was an empty file."""
VERSION_LIMIT = 16
_OPEN = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

_OURS = re.compile(rf"[0-9a-f]{{20}}\.(?:{'|'.join(KINDS)})", re.ASCII)


class FileSignals:
    """Stores signals in a directory; implements ``Signals``.

    Args:
        directory: The directory of the files; created with the first signal.
        watcher: Watches the directory while this process has turns.
    """

    def __init__(self, directory: Path, watcher: PathWatcher) -> None:
        self._directory = directory
        self._watcher = watcher

    def send(self, turn_id: str, kind: SignalKind) -> None:
        """Send a signal to the turn's owner; sending it again has no effect. Blocks.

        Raises:
            StorageError: The file can't be written.
        """
        path = self._directory / f"{turn_id}.{kind}"
        try:
            make_private_directory(self._directory, durable=False)
            descriptor = os.open(path, _OPEN, PRIVATE_FILE)
            try:
                with suppress(OSError):  # on a full disk it stays empty, which is valid too
                    os.write(descriptor, b"%d\n" % VERSION)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise_if_unwritable(error)
            raise

    def withdraw(self, turn_id: str, kind: SignalKind) -> None:
        """Delete a signal that its owner has not taken. Blocks."""
        _forget(self._directory / f"{turn_id}.{kind}")

    def is_waiting(self, turn_id: str, kind: SignalKind) -> bool:
        """Return whether the owner has not taken the signal yet. Blocks."""
        return (self._directory / f"{turn_id}.{kind}").exists()

    def sweep(self, older_than_seconds: float) -> None:
        """Delete signals whose turns died before taking them. Blocks.

        Other files are left alone: the directory may be a link to another one.
        """
        newest = time.time() - older_than_seconds
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in self._directory.iterdir():
                if not _OURS.fullmatch(path.name):
                    continue
                with suppress(FileNotFoundError):  # taken meanwhile
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
        """Call ``changed`` in another thread when there may be signals; return a stop function."""
        return self._watcher.watch(self._directory, changed)


def _forget(path: Path) -> None:
    """Remove a signal that was taken or withdrawn; on a read-only disk leave it to a later sweep.

    The error must not reach the turn: signals are idempotent, so taking one again is harmless.
    """
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _is_known(path: Path) -> bool:
    """Return whether this server knows the signal's version; older servers wrote empty files."""
    if path.suffix[1:] not in KINDS:
        return False
    try:
        version = read_regular(path, limit=VERSION_LIMIT).strip()
    except OSError:
        return False
    return version in {b"", b"%d" % VERSION}
