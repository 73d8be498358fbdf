"""Keeps the files in which the processes of a data directory count, each in its own."""

import fcntl
import os
import re
from pathlib import Path

_OF_PROCESS = re.compile(r"_(\d+)\.db$")
_LOCK = "lock"


class SharedFiles:
    """Holds the directory of the files for as long as this process lives.

    Who finds nobody there begins anew: a counter that goes back to zero is a restart, as Prometheus
    takes it. What a process counted stays while any other lives, so sums never go back; its gauges
    go with it.

    Args:
        directory: Where they are.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock: int | None = None

    def open(self) -> None:
        """Join the processes that count. Blocks.

        Raises:
            OSError: The directory can't be written to.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            for file in self.directory.glob("*.db"):
                file.unlink()
        fcntl.flock(self._lock, fcntl.LOCK_SH)  # until the process ends, however it does
        self._forget_gauges(os.getpid())  # of a process that had this number before

    def forget_dead(self) -> None:
        """Remove the gauges of processes that live no more. Blocks."""
        for pid in {int(found[1]) for found in map(_OF_PROCESS.search, self._gauges()) if found}:
            if not _lives(pid):
                self._forget_gauges(pid)

    def filled(self) -> list[Path]:
        """Return the files that something was written to. Blocks."""
        return [file for file in self.directory.glob("*.db") if _size(file)]

    def close(self) -> None:
        """Leave; what was counted stays."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

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
