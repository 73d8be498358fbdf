"""Recognizes files that this process wrote without reading them (docs/decisions/0103).

The kernel sets a file's time of change whenever somebody writes to it. But its clock ticks only
some hundred times a second: of two writes within a tick, the second leaves no trace. So a file of
ours gets a time of the finer clock that no write gives it. Any write, within the same tick too,
replaces that time by another one; whoever sets it back, or puts another file there, leaves a time
or a number that is not ours either.
"""

import contextlib
import os
import time
from typing import NamedTuple


class Stamp(NamedTuple):
    """Says which file it is, and which state of it.

    Attributes:
        device: Where the file is kept.
        inode: Its number there.
        size: How many bytes it has.
        written_ns: When it was written.
        changed_ns: When it, or what is known of it, was changed.
    """

    device: int
    inode: int
    size: int
    written_ns: int
    changed_ns: int

    def is_same_content(self, other: "Stamp") -> bool:
        """Return whether the file has not been written to; its names may have changed."""
        return self[:4] == other[:4]


def stamped(descriptor: int) -> Stamp | None:
    """Give a file that was just written a time of its own; None where its folder keeps none.

    The file must not be known to others yet.
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
    """Return the stamp of a file that got its name just now; None if it is another by now."""
    if stamp is None:
        return None
    with contextlib.suppress(OSError):
        found = stamp_of(os.lstat(path))
        if found.is_same_content(stamp):
            return found
    return None


def bears(path: str, stamp: Stamp) -> bool:
    """Return whether the file at a path is the one with this stamp, unchanged."""
    try:
        # Opening it makes file systems of networks ask for what is known of it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # reading it says why
        return False
    try:
        return stamp_of(os.fstat(descriptor)) == stamp
    finally:
        os.close(descriptor)
