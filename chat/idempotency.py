"""Which turn an ``Idempotency-Key`` stands for, kept where every worker process sees it.

One small file for each key, made exclusively: of several equal requests exactly one starts a turn,
the others find out which. A key lives as long as its turn's journal.
"""

import hashlib
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from chat.errors import KeyReused
from sessions_app.atomic import UnreadableFileError, read_regular, write_atomically

RECORD_LIMIT = 4096
SUFFIX = ".json"


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a key stands for.

    Attributes:
        fingerprint: A hash of the request; the same key with another request is refused.
        turn_id: The turn.
        session_id: Its session; None while that is being made.
    """

    fingerprint: str
    turn_id: str
    session_id: str | None = None


def fingerprint_of(*parts: object) -> str:
    """Return a hash of the parts of a request."""
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


class IdempotencyKeys:
    """The keys in use. All calls block."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def take(self, key: str, record: KeyRecord) -> KeyRecord:
        """Take the key for a turn, or return what it stands for already.

        Returns:
            ``record`` itself when the key was free.

        Raises:
            KeyReused: The key stands for another request.
        """
        while True:
            try:
                # A key ends with the process that would answer for it, so it need not be durable.
                data = msgspec.json.encode(record)
                write_atomically(self._path(key), data, exclusive=True, durable=False)
            except FileExistsError:
                found = self.find(key)
            else:
                return record
            if found is not None:
                if found.fingerprint != record.fingerprint:
                    raise KeyReused
                return found

    def find(self, key: str) -> KeyRecord | None:
        """Return what the key stands for; None when it is free."""
        path = self._path(key)
        try:
            return _read(path)
        except FileNotFoundError:
            return None
        except (UnreadableFileError, msgspec.MsgspecError):
            path.unlink(missing_ok=True)  # torn by a crash of the machine
            return None

    def keep(self, key: str, record: KeyRecord) -> None:
        """Replace what the key stands for; only whoever took it may."""
        write_atomically(self._path(key), msgspec.json.encode(record), durable=False)

    def drop(self, key: str, turn_id: str) -> None:
        """Free the key if it stands for this turn."""
        found = self.find(key)
        if found is not None and found.turn_id == turn_id:
            self._path(key).unlink(missing_ok=True)

    def sweep(self, older_than_seconds: float, known_turns: set[str]) -> int:
        """Free keys of that age whose turn is not among the known ones; return how many."""
        swept = 0
        newest = time.time() - older_than_seconds
        for path in self._directory.glob(f"*{SUFFIX}"):
            with suppress(FileNotFoundError, UnreadableFileError, msgspec.MsgspecError):
                if path.stat().st_mtime <= newest and _read(path).turn_id not in known_turns:
                    path.unlink(missing_ok=True)
                    swept += 1
        return swept

    def _path(self, key: str) -> Path:
        return self._directory / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}{SUFFIX}"


def _read(path: Path) -> KeyRecord:
    return msgspec.json.decode(read_regular(path, limit=RECORD_LIMIT), type=KeyRecord)
