"""Stores signals to turns as records in one directory, which the turns' processes watch.

The file ``{directory}/{turn_id}.{kind}`` contains the format version. The turn's owner removes it
when it takes the signal, so the directory is usually empty and the cost of watching does not depend
on the number of turns (docs/decisions/0002). Unknown kinds and newer versions are left alone.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chat.storage.files.watcher import PathWatcher
from chat.storage.signals import KINDS, SignalKind
from sessions_app.errors import StorageError, StorageFull
from sessions_app.store.file_records import FileRecords
from sessions_app.store.records import read_or_empty, sweep_records

VERSION = 1
"""The format version, raised when the meaning of a kind changes. Version 0 was an empty file."""
RECORD_LIMIT = 4096
_KNOWN = frozenset({b"", b"%d" % VERSION})
_NAMES = rf"[0-9a-f]{{20}}\.(?:{'|'.join(KINDS)})"


class FileSignals:
    """Stores signals in a directory; implements ``Signals``.

    Args:
        directory: The directory of the files; created with the first signal.
        watcher: Watches the directory while this process has turns.
    """

    def __init__(self, directory: Path, watcher: PathWatcher) -> None:
        self._directory = directory
        self._records = FileRecords(directory, names=_NAMES, limit=RECORD_LIMIT, durable=False)
        self._watcher = watcher

    def send(self, turn_id: str, kind: SignalKind) -> None:
        """Send a signal to the turn's owner; sending it again has no effect. Blocks.

        Raises:
            StorageError: The file can't be written.
        """
        name = f"{turn_id}.{kind}"
        try:
            self._records.put(name, b"%d\n" % VERSION)
        except StorageFull:
            self._records.put(name, b"")  # an empty one takes no space, and is valid too

    def withdraw(self, turn_id: str, kind: SignalKind) -> None:
        """Delete a signal that its owner has not taken. Blocks."""
        self._forget(f"{turn_id}.{kind}")

    def is_waiting(self, turn_id: str, kind: SignalKind) -> bool:
        """Return whether the owner has not taken the signal yet. Blocks."""
        return read_or_empty(self._records, f"{turn_id}.{kind}") is not None

    def sweep(self, older_than_seconds: float) -> None:
        """Delete signals whose turns died before taking them. Blocks.

        Other files are left alone: the directory may be a link to another one.
        """
        newest = time.time() - older_than_seconds
        sweep_records(self._records, newest, lambda data: not _is_known(data))

    def take(self, turn_ids: set[str]) -> list[tuple[str, str]]:
        """Return and remove the signals to these turns: [(turn id, kind), ...]. Blocks."""
        taken = []
        for name in self._records.names():
            turn_id, _, kind = name.partition(".")
            if turn_id in turn_ids:
                with suppress(OSError):  # it can't be read, so it is no signal
                    data = self._records.read(name)
                    if data is not None and _is_known(data):
                        taken.append((turn_id, kind))
                        self._forget(name)
        return taken

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed`` in another thread when there may be signals; return a stop function."""
        return self._watcher.watch(self._directory, changed)

    def _forget(self, name: str) -> None:
        """Remove a signal that was taken or withdrawn; on a read-only disk leave it to a sweep.

        The error must not reach the turn: signals are idempotent, so taking one again is harmless.
        """
        with suppress(OSError, StorageError):
            self._records.delete(name)


def _is_known(data: bytes) -> bool:
    """Return whether this server knows the signal's version; older servers wrote empty files."""
    return data.strip() in _KNOWN
