"""Records which directories of sessions use the attachments of a data directory.

Servers may share a data directory and have their sessions elsewhere, and a volume with sessions may
not be mounted. What such sessions refer to must stay, so a sweep looks at all directories that ever
used the attachments, and needs each of them (docs/decisions/0111).

::

    {attachments}/.sessions/since          from when on all of them are recorded, in seconds
    {attachments}/.sessions/{16 hex}       one of them: its path and its id, as JSON
    {sessions_dir}/.id                     the id, which an empty mount point does not have
"""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.errors import StorageError
from sessions_app.ids_and_clock import new_file_tag
from sessions_app.store.atomic import read_regular, write_atomically

logger = logging.getLogger(__name__)

WAIT_SECONDS = 30 * 86_400.0
"""The wait before sweeps of a store that had files before its records: other servers come late."""

_RECORDS = ".sessions"
_SINCE = "since"
_ID = ".id"
_LIMIT = 1 << 16


class _Record(msgspec.Struct, frozen=True):
    """A directory, and the id that was in it; within the data directory the path is relative."""

    path: str
    id: str


class UsedFrom(msgspec.Struct, frozen=True):
    """The directories that use the attachments.

    Attributes:
        others: Those of other servers, all of them readable.
        absent: Those that are not there, or are not the same, each with the file of its record.
        is_complete: Whether all are there, and no other directory can be unknown.
    """

    others: Sequence[Path]
    absent: Sequence[str]
    is_complete: bool


class SessionDirectories:
    """Records the directories of this server's sessions, and finds those of others. Calls block.

    Args:
        attachments: The directory of the attachments, in the data directory.
        own: The directories of this server's sessions.
        now: Returns the time in seconds since 1970.
    """

    def __init__(
        self, attachments: Path, own: Sequence[Path], *, now: Callable[[], float] = time.time
    ) -> None:
        self._attachments = attachments
        self._records = attachments / _RECORDS
        self._own = own
        self._now = now

    def note(self) -> None:
        """Record this server's directories, before their sessions refer to a file.

        What can't be recorded is logged, and no reason to refuse a message: it prevents sweeps.
        """
        if not self._attachments.is_dir():  # nothing to keep
            return
        try:
            if self._since() is None:
                self._begin()
            for directory in self._own:
                if directory.is_dir():
                    self._record(directory)
        except (OSError, StorageError) as error:
            logger.warning(
                "a directory of sessions could not be recorded; unused attachments are kept",
                extra={"reason": str(error)},
            )

    def look(self) -> UsedFrom:
        """Find all recorded directories."""
        recorded: set[Path] = set()
        absent: list[str] = []
        for file in sorted(self._records.glob("[0-9a-f]*")):
            try:
                record = decode_as(read_regular(file, limit=_LIMIT), _Record)
            except FileNotFoundError:  # just removed
                continue
            except (OSError, msgspec.MsgspecError):
                absent.append(f"unknown ({file})")
                continue
            directory = Path(os.path.normpath(self._attachments.parent / record.path))
            recorded.add(directory)
            if _id_in(directory) != record.id:
                absent.append(f"{directory} ({file})")
        unknown = any(each.is_dir() and each not in recorded for each in self._own)
        since = self._since()
        return UsedFrom(
            others=sorted(recorded.difference(self._own)),
            absent=absent,
            is_complete=not absent and not unknown and since is not None and self._now() >= since,
        )

    def _since(self) -> float | None:
        with suppress(OSError, ValueError):
            return float(read_regular(self._records / _SINCE, limit=_LIMIT))
        return None

    def _begin(self) -> None:
        """Begin the records. Sessions of unknown directories may use files that are there."""
        has_files = any(self._attachments.glob("??"))
        since = self._now() + WAIT_SECONDS if has_files else 0.0
        write_atomically(self._records / _SINCE, f"{since:.0f}".encode())

    def _record(self, directory: Path) -> None:
        if (known := _id_in(directory)) is None:
            with suppress(FileExistsError):  # another process was faster
                write_atomically(directory / _ID, new_file_tag().encode(), exclusive=True)
            known = read_regular(directory / _ID, limit=_LIMIT).decode(errors="replace")
        data_dir = self._attachments.parent
        path = directory.relative_to(data_dir) if directory.is_relative_to(data_dir) else directory
        record = msgspec.json.encode(_Record(str(path), known))
        file = self._records / hashlib.sha256(record).hexdigest()[:16]
        if not file.exists():
            write_atomically(file, record)


def _id_in(directory: Path) -> str | None:
    """Return the id of a directory of sessions; None if it has none, or can't be read."""
    try:
        return read_regular(directory / _ID, limit=_LIMIT).decode(errors="replace")
    except OSError:
        return None
