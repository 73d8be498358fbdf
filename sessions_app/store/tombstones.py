"""Remembers which sessions were deleted, to tell them from missing ones (docs/decisions/0026).

A tombstone is a symbolic link that leads nowhere, ``{session_id}.deleted`` beside the claims; its
target is the record (``time|version``). Journals and whatever else belongs to a session may be
elsewhere, and be removed later, by another process than the one that deleted it.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SUFFIX = ".deleted"
VERSION = 1
KEPT_SECONDS = 30 * 86400.0


class Tombstones:
    """The tombstones of the sessions of one directory.

    Args:
        directory: Where they are. Without it no turn ever ran on these sessions, so that
            nothing of theirs is elsewhere: then none are made.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, session_id: str, *, deleted_at: str) -> None:
        """Record that the session is about to be deleted."""
        self.remove(session_id)
        with suppress(FileNotFoundError):
            self._path(session_id).symlink_to(f"{deleted_at}|{VERSION}")

    def read(self, session_id: str) -> str | None:
        """Return when the session was deleted; None when it was not."""
        try:
            target = str(self._path(session_id).readlink())
        except OSError:  # there is none, or something else lies there
            return None
        return target.partition("|")[0]

    def remove(self, session_id: str) -> None:
        """Forget that the session was deleted."""
        self._path(session_id).unlink(missing_ok=True)

    def sweep(self, exists: Callable[[str], bool]) -> int:
        """Remove old tombstones, and those of sessions that exist; return how many."""
        swept = 0
        newest = time.time() - KEPT_SECONDS
        for path in self._directory.glob(f"*{SUFFIX}"):
            session_id = path.name.removesuffix(SUFFIX)
            with suppress(FileNotFoundError):  # another process sweeps too
                if path.lstat().st_mtime <= newest or exists(session_id):
                    self.remove(session_id)
                    swept += 1
        return swept

    def _path(self, session_id: str) -> Path:
        return self._directory / f"{session_id}{SUFFIX}"
