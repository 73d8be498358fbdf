"""Recognizes files that this process wrote without reading them (docs/decisions/0103).

The kernel sets mtime and ctime on every write, but with a coarse clock of some hundred ticks a
second: of two writes within a tick, the second leaves no trace. So a written file gets an mtime
from the fine clock, which no write would set. Any write, even within the same tick, replaces that
mtime. Resetting it changes the ctime, and another file has another inode.
"""

import contextlib
import os
import time
from typing import NamedTuple


class Stamp(NamedTuple):
    """Identifies a file and its state.

    Attributes:
        device: The device number.
        inode: The inode number.
        size: The size in bytes.
        written_ns: The mtime in ns.
        changed_ns: The ctime in ns.
    """

    device: int
    inode: int
    size: int
    written_ns: int
    changed_ns: int

    def is_same_content(self, other: "Stamp") -> bool:
        """Return whether the file has not been written to; it may have been renamed or linked."""
        return self[:4] == other[:4]


def stamped(descriptor: int) -> Stamp | None:
    """Set the mtime of a file just written; return None if the file system does not keep it.

    The file must not be visible to other programs yet.
    """
    now = time.time_ns()
    with contextlib.suppress(OSError):
        os.utime(descriptor, ns=(now, now))
        stamp = stamp_of(os.fstat(descriptor))
        return stamp if stamp.written_ns == now else None
    return None


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return Stamp(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def renamed(stamp: Stamp | None, path: str) -> Stamp | None:
    """Return the new stamp of a file just renamed; None if the file at the path is another one."""
    if stamp is None:
        return None
    with contextlib.suppress(OSError):
        found = stamp_of(os.lstat(path))
        if found.is_same_content(stamp):
            return found
    return None


def bears(path: str, stamp: Stamp) -> bool:
    """Return whether the file at a path has this stamp."""
    try:
        # Opening the file makes network file systems refresh its attributes.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # reading the file raises the error
        return False
    try:
        return stamp_of(os.fstat(descriptor)) == stamp
    finally:
        os.close(descriptor)
