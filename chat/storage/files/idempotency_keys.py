"""Stores each idempotency key as a small file, created exclusively.

The process that starts a key's turn holds a ``flock`` on the file until the turn exists. The system
drops the lock with the process, so a dead start is recognized by its process, never by its age. A
key is kept as long as its turn's journal (docs/decisions/0037).
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from chat.errors import KeyOfOtherVersion, KeyReused
from chat.storage.idempotency_keys import VERSION, KeyRecord, decode_record, key_digest
from sessions_app.ids_and_clock import new_file_tag
from sessions_app.store.atomic import (
    UnreadableFileError,
    make_private_directory,
    raise_if_unwritable,
    read_regular,
)
from sessions_app.store.holder import Holder, held_if_free, is_held

RECORD_LIMIT = 4096
SUFFIX = ".json"
UNLOCKED_START_SECONDS = 10.0
"""The time limit of a start by a server of version 1, which did not lock keys."""


class FileHeldKey:
    """Holds a key by a lock on its file. All calls block.

    Call exactly one of ``release`` and ``drop`` at the end.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self.record = KeyRecord(version=VERSION, fingerprint=fingerprint)
        self._holder = _put(path, self.record, exclusive=True)

    def keep(self, session_id: str, turn_id: str) -> None:
        """Store the turn of the key, which stays held."""
        known = msgspec.structs.replace(self.record, session_id=session_id, turn_id=turn_id)
        holder = _put(self._path, known, exclusive=False)
        self.record = known
        self._holder.release()
        self._holder = holder

    def release(self) -> None:
        """Stop holding the key; from now on its turn's own state counts."""
        self._holder.release()

    def drop(self) -> None:
        """Free the key, because no turn was started.

        Raises:
            StorageReadOnly: The file can't be removed; the key is released all the same.
        """
        try:
            _unlink(self._path)
        finally:
            self.release()


class FileIdempotencyKeys:
    """Stores keys in a directory; implements ``IdempotencyKeys``. All calls block."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def take(self, key: str, fingerprint: str) -> FileHeldKey | KeyRecord:
        """Take a free key for a new turn, or return the record of one that is in use.

        Raises:
            KeyReused: The key was used with another request.
            KeyOfOtherVersion: The record was written by a newer server.
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
        """Return the key's record, or None if it is free.

        Raises:
            KeyOfOtherVersion: The record was written by a newer server.
        """
        path = self._path(key)
        try:
            return _read(path)
        except FileNotFoundError:
            return None
        except (UnreadableFileError, msgspec.MsgspecError):
            _unlink(path)  # incomplete after a crash of the machine
            return None

    def is_held(self, key: str, record: KeyRecord) -> bool:
        """Return whether a living process is starting the turn of this key."""
        path = self._path(key)
        if record.version < VERSION:
            with suppress(FileNotFoundError):
                return time.time() - path.stat().st_mtime < UNLOCKED_START_SECONDS
            return False
        return is_held(path) is True

    def drop(self, key: str, record: KeyRecord) -> None:
        """Free the key if it still has exactly this record and is not held.

        Raises:
            StorageReadOnly: The file can't be removed.
        """
        path = self._path(key)
        with _lock_to_free(path) as is_free:
            # While this process has the lock, no other one replaces or frees the key.
            if is_free and self.find(key) == record:
                _unlink(path)

    def sweep(self, older_than_seconds: float, known_turns: Callable[[], set[str]]) -> int:
        """Free keys older than that whose turn is not among the known ones; return how many.

        Held keys and those written by newer servers stay.
        """
        swept = 0
        newest = time.time() - older_than_seconds
        known = known_turns()
        for path in self._directory.glob(f"*{SUFFIX}"):
            with suppress(
                FileNotFoundError, UnreadableFileError, msgspec.MsgspecError, KeyOfOtherVersion
            ):
                if path.stat().st_mtime > newest or _read(path).turn_id in known:
                    continue
                with _lock_to_free(path) as is_free:
                    if is_free:
                        _unlink(path)
                        swept += 1
        return swept

    def _path(self, key: str) -> Path:
        return self._directory / f"{key_digest(key)}{SUFFIX}"


def _read(path: Path) -> KeyRecord:
    return decode_record(read_regular(path, limit=RECORD_LIMIT), KeyRecord)


def _put(path: Path, record: KeyRecord, *, exclusive: bool) -> Holder:
    """Write the record to ``path`` atomically and hold the file.

    It is not synced: a key matters only until the machine restarts.

    Raises:
        FileExistsError: ``exclusive``, and the path exists already.
        StorageFull: No space is left.
    """
    temporary = path.with_name(f".{path.name}.{new_file_tag()}.tmp")
    try:
        make_private_directory(path.parent)
        holder = Holder.create(temporary)  # before others can see it
    except OSError as error:
        raise_if_unwritable(error)
        raise
    try:
        holder.write(msgspec.json.encode(record))
        if exclusive:
            os.link(temporary, path, follow_symlinks=False)
            temporary.unlink()
        else:
            temporary.replace(path)
    except BaseException as error:
        holder.release()
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise_if_unwritable(error)
        raise
    return holder


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise_if_unwritable(error)
        raise


@contextmanager
def _lock_to_free(path: Path) -> Iterator[bool | None]:
    """Try to lock a key to free it; yield whether that succeeded. Raises ``StorageReadOnly``."""
    try:
        with held_if_free(path) as is_free:
            yield is_free
    except OSError as error:
        raise_if_unwritable(error)
        raise
