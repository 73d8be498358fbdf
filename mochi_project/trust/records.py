"""Records which folders are trusted, in this user's own state directory."""

import contextlib
import os
import pwd
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from mochi_project.trust.own_files import UnsafeFileError, read_own_file
from sessions_app.decoding import decode_as
from sessions_app.errors import StorageError
from sessions_app.store.atomic import make_private_directory, write_atomically
from sessions_app.store.locks import FileLocks

VERSION = 1
TRUST_FILE = "trust.json"
_MAX_BYTES = 16 << 20
_MAX_FOLDERS = 10_000
_LOCK_SECONDS = 30.0


class TrustRecordsError(Exception):
    """The record of trusted folders can't be read or written; the message says why."""


class TrustRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded decision about a folder.

    Attributes:
        trusted: Whether it is trusted; False is an answer, too.
        at: The time of the decision, in UTC.
        parts: Digests of its parts at that time.
    """

    trusted: bool
    at: str = ""
    parts: Mapping[str, str] = msgspec.field(default_factory=dict)


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    folders: dict[str, TrustRecord] = msgspec.field(default_factory=dict)


class TrustRecords:
    """The trust records of this user. Calls block."""

    def __init__(self) -> None:
        self.path = state_home() / TRUST_FILE

    def all(self) -> Mapping[str, TrustRecord]:
        """Return every record by the folder's path.

        Raises:
            TrustRecordsError: The file can't be used.
        """
        return self._read().folders

    def get(self, folder: Path) -> TrustRecord | None:
        """Return the decision about a folder; None if there is none.

        Raises:
            TrustRecordsError: The file can't be used.
        """
        return self._read().folders.get(str(folder))

    def put(self, folder: Path, *, trusted: bool, parts: Mapping[str, str]) -> None:
        """Record a decision.

        Raises:
            TrustRecordsError: It can't be recorded.
        """
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._changing() as folders:
            folders.pop(str(folder), None)
            folders[str(folder)] = TrustRecord(trusted=trusted, at=at, parts=dict(parts))
            for oldest in list(folders)[:-_MAX_FOLDERS]:
                del folders[oldest]

    def remove(self, folder: Path) -> bool:
        """Remove a decision; return False if there was none.

        Raises:
            TrustRecordsError: The file can't be used.
        """
        with self._changing() as folders:
            return folders.pop(str(folder), None) is not None

    def _read(self) -> _File:
        try:
            data = read_own_file(self.path, limit=_MAX_BYTES)
            read = decode_as(data, _File)
        except FileNotFoundError:
            return _File(version=VERSION)
        except UnsafeFileError as error:
            raise TrustRecordsError(f"{error}; no folder counts as trusted") from error
        except (OSError, msgspec.DecodeError) as error:
            raise TrustRecordsError(f"{self.path} can't be read: {error}") from error
        if read.version != VERSION:
            raise TrustRecordsError(f"{self.path} was written by another version of mochi-server")
        return read

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, TrustRecord]]:
        try:
            make_state_home()
            locks = FileLocks(self.path.parent)
            with locks.held(self.path.name, timeout_seconds=_LOCK_SECONDS):
                file = self._read()
                yield file.folders
                write_atomically(self.path, msgspec.json.format(msgspec.json.encode(file)))
        except OSError as error:
            raise TrustRecordsError(f"{self.path} can't be written: {error}") from error
        except StorageError as error:
            raise TrustRecordsError(f"{self.path} can't be written: {error.message}") from error


def state_home() -> Path:
    """Return this user's state directory, outside of any data folder.

    ``$XDG_STATE_HOME/mochi-server``, by default ``~/.local/state/mochi-server``; for an account
    without a writable home, a private directory in the system's temporary one.
    """
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = named if named.is_absolute() else _home() / ".local" / "state"
    directory = base / "mochi-server"
    existing = directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return directory
    return Path(tempfile.gettempdir()) / f"mochi-server-{os.geteuid()}"


def private_directory(folder: Path) -> Path:
    """Return the directory for the secrets and tasks of an untrusted folder; it need not exist."""
    return state_home() / "folders" / sha256(os.fsencode(folder)).hexdigest()[:32]


def make_state_home() -> None:
    """Make this user's state directory, and refuse one that others control.

    Raises:
        UnsafeFileError: It belongs to another user, or others can write to it.
        OSError: It can't be made.
    """
    directory = state_home()
    make_private_directory(directory)
    status = directory.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022 or directory.is_symlink():
        raise UnsafeFileError(directory, "is not a directory of this user alone")


def _home() -> Path:
    # Not Path.home(), which raises for an account without one.
    if home := os.environ.get("HOME"):
        return Path(home)
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return Path("/nonexistent")
