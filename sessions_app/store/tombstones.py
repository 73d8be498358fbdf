"""Remembers which sessions were deleted, to tell them from missing ones (docs/decisions/0026).

A tombstone is a dangling symbolic link ``{session_id}.deleted`` in the claims' directory, whose
target is the record (``time|version``). The session's journals and other data may be elsewhere, and
may be removed later by another process.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SUFFIX = ".deleted"
VERSION = 1
KEPT_SECONDS = 30 * 86400.0


class Tombstones:
    """Stores the tombstones of the sessions of one directory.

    Args:
        directory: The directory of claims. If it does not exist, no turn ever ran on these sessions
            and they have no data elsewhere, so no tombstones are written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, session_id: str, *, deleted_at: str) -> None:
        """Record that the session is about to be deleted."""
        self.remove(session_id)
        with suppress(FileNotFoundError):
            self._path(session_id).symlink_to(f"{deleted_at}|{VERSION}")

    def read(self, session_id: str) -> str | None:
        """Return when the session was deleted, or None."""
        try:
            target = str(self._path(session_id).readlink())
        except OSError:  # missing, or not a symbolic link
            return None
        return target.partition("|")[0]

    def remove(self, session_id: str) -> None:
        """Remove the session's tombstone."""
        self._path(session_id).unlink(missing_ok=True)

    def sweep(self, exists: Callable[[str], bool]) -> int:
        """Remove old tombstones, and those of sessions that exist; return how many."""
        swept = 0
        newest = time.time() - KEPT_SECONDS
        for path in self._directory.glob(f"*{SUFFIX}"):
            session_id = path.name.removesuffix(SUFFIX)
            with suppress(FileNotFoundError):  # removed by a concurrent sweep
                if path.lstat().st_mtime <= newest or exists(session_id):
                    self.remove(session_id)
                    swept += 1
        return swept

    def _path(self, session_id: str) -> Path:
        return self._directory / f"{session_id}{SUFFIX}"
