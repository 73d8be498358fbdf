"""Keeps idempotency keys as one small file each, made exclusively.

The process that starts a key's turn holds a ``flock`` on the file until the turn is there,
however long that takes; the system drops the lock with the process. So a start that died is
distinguished from a slow one by its process, never by its age. A key lives as long as its turn's
journal (docs/decisions/0037).
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from chat.errors import KeyOfOtherVersion, KeyReused
from chat.storage.idempotency_keys import VERSION, KeyRecord
from sessions_app.decoding import decode_as
from sessions_app.ids_and_clock import new_file_tag
from sessions_app.store.atomic import (
    PRIVATE_FILE,
    UnreadableFileError,
    make_private_directory,
    raise_if_unwritable,
    read_regular,
)
from sessions_app.store.locks import try_lock

RECORD_LIMIT = 4096
SUFFIX = ".json"
UNLOCKED_START_SECONDS = 10.0
"""The time limit of a start by a server of version 1, which knew no locks on keys."""


class _Version(msgspec.Struct):
    version: int = 1


class FileHeldKey:
    """Holds a key by the lock on its file. All calls block.

    It must be ended once, by ``release`` or ``drop``.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self.record = KeyRecord(version=VERSION, fingerprint=fingerprint)
        self._descriptor = _put(path, self.record, exclusive=True)

    def keep(self, session_id: str, turn_id: str) -> None:
        """Record the turn that the key stands for; it stays held."""
        known = msgspec.structs.replace(self.record, session_id=session_id, turn_id=turn_id)
        descriptor = _put(self._path, known, exclusive=False)
        self.record = known
        os.close(self._descriptor)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go of the key: what it stands for shows by itself from now on."""
        os.close(self._descriptor)

    def drop(self) -> None:
        """Free the key: nothing came of the request.

        Raises:
            StorageReadOnly: It can't be removed; it is released all the same.
        """
        try:
            _unlink(self._path)
        finally:
            self.release()


class FileIdempotencyKeys:
    """Keeps the keys of one directory; implements ``IdempotencyKeys``. All calls block."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def take(self, key: str, fingerprint: str) -> FileHeldKey | KeyRecord:
        """Take the key for a turn, or return what it stands for already.

        Raises:
            KeyReused: The key stands for another request.
            KeyOfOtherVersion: Its record is one of a newer server.
            StorageFull: No space is left.
        """
        while True:
            try:
                return FileHeldKey(self._path(key), fingerprint)
            except FileExistsError:
                found = self.find(key)
            if found is not None:
                if found.fingerprint != fingerprint:
                    raise KeyReused
                return found

    def find(self, key: str) -> KeyRecord | None:
        """Return what the key stands for; None when it is free.

        Raises:
            KeyOfOtherVersion: Its record is one of a newer server.
        """
        path = self._path(key)
        try:
            return _read(path)
        except FileNotFoundError:
            return None
        except (UnreadableFileError, msgspec.MsgspecError):
            _unlink(path)  # torn by a crash of the machine
            return None

    def is_held(self, key: str, record: KeyRecord) -> bool:
        """Return whether a living process starts the turn of this record."""
        path = self._path(key)
        if record.version < VERSION:
            with suppress(FileNotFoundError):
                return time.time() - path.stat().st_mtime < UNLOCKED_START_SECONDS
            return False
        with try_lock(path) as is_free:
            return is_free is False

    def drop(self, key: str, record: KeyRecord) -> None:
        """Free the key if it still stands for just this and is not held.

        Raises:
            StorageReadOnly: It can't be removed.
        """
        path = self._path(key)
        with _lock_to_free(path) as is_free:
            # While its lock is held, no other process replaces or frees it.
            if is_free and self.find(key) == record:
                _unlink(path)

    def sweep(self, older_than_seconds: float, known_turns: set[str]) -> int:
        """Free keys of that age whose turn is not among the known ones; return how many.

        Keys that are held, and those of newer servers, stay.
        """
        swept = 0
        newest = time.time() - older_than_seconds
        for path in self._directory.glob(f"*{SUFFIX}"):
            with suppress(
                FileNotFoundError, UnreadableFileError, msgspec.MsgspecError, KeyOfOtherVersion
            ):
                if path.stat().st_mtime > newest or _read(path).turn_id in known_turns:
                    continue
                with _lock_to_free(path) as is_free:
                    if is_free:
                        _unlink(path)
                        swept += 1
        return swept

    def _path(self, key: str) -> Path:
        return self._directory / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}{SUFFIX}"


def _read(path: Path) -> KeyRecord:
    data = read_regular(path, limit=RECORD_LIMIT)
    if decode_as(data, _Version).version > VERSION:
        raise KeyOfOtherVersion
    return decode_as(data, KeyRecord)


def _put(path: Path, record: KeyRecord, *, exclusive: bool) -> int:
    """Put the record at ``path``, whole, and return a descriptor that holds its lock.

    A key ends with the machine that would answer for it, so it need not be durable.

    Raises:
        FileExistsError: ``exclusive``, and something stands there already.
        StorageFull: No space is left.
    """
    temporary = path.with_name(f".{path.name}.{new_file_tag()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        make_private_directory(path.parent)
        descriptor = os.open(temporary, flags, PRIVATE_FILE)
    except OSError as error:
        raise_if_unwritable(error)
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # before others can see it
        os.write(descriptor, msgspec.json.encode(record))
        if exclusive:
            os.link(temporary, path, follow_symlinks=False)
            temporary.unlink()
        else:
            temporary.replace(path)
    except BaseException as error:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise_if_unwritable(error)
        raise
    return descriptor


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise_if_unwritable(error)
        raise


@contextmanager
def _lock_to_free(path: Path) -> Iterator[bool | None]:
    """Lock a key that may be freed; yield whether it was free. Raises ``StorageReadOnly``."""
    try:
        with try_lock(path, exclusive=True) as is_free:
            yield is_free
    except OSError as error:
        raise_if_unwritable(error)
        raise
