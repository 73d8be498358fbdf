"""Manages the files in which the processes of a data directory count, one for each process."""

import os
import re
from pathlib import Path

from sessions_app.store.holder import Holder

_OF_PROCESS = re.compile(r"_(\d+)\.db$")
_LOCK = "lock"


class SharedFiles:
    """Holds the directory of the files as long as this process lives.

    The first of the processes starts with empty counters, which Prometheus takes for a restart. The
    counters of a process stay while any other lives, so that sums never decrease; its gauges are
    removed.

    Args:
        directory: The directory of the files.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._holder: Holder | None = None

    def open(self) -> None:
        """Join the processes that count; remove the files if there are none. Blocks.

        Raises:
            OSError: The directory can't be written to.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self._holder = Holder.join(self.directory / _LOCK, alone=self._forget_all)
        self._forget_gauges(os.getpid())  # of a process that had this number before

    def forget_dead(self) -> None:
        """Remove the gauges of dead processes. Blocks."""
        for pid in {int(found[1]) for found in map(_OF_PROCESS.search, self._gauges()) if found}:
            if not _lives(pid):
                self._forget_gauges(pid)

    def filled(self) -> list[Path]:
        """Return the files that are not empty. Blocks."""
        return [file for file in self.directory.glob("*.db") if _size(file)]

    def close(self) -> None:
        """Leave; the counters stay."""
        holder, self._holder = self._holder, None
        if holder is not None:
            holder.release()

    def _forget_all(self) -> None:
        for file in self.directory.glob("*.db"):
            file.unlink()

    def _gauges(self) -> list[str]:
        return [file.name for file in self.directory.glob("gauge_live*.db")]

    def _forget_gauges(self, pid: int) -> None:
        for file in self.directory.glob(f"gauge_live*_{pid}.db"):
            file.unlink(missing_ok=True)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # the gauges of a process that has ended
        return 0


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
