"""What tests of files need of the system: leases, and a clock that goes on."""

import fcntl
import os
import time
from pathlib import Path


def gives_leases(directory: Path) -> bool:
    """Return whether the file system tells who has a file open."""
    descriptor = os.open(directory / "probe", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except (OSError, AttributeError):
        return False
    finally:
        os.close(descriptor)
        (directory / "probe").unlink()
    return True


def await_tick() -> None:
    """Wait until the kernel's coarse clock goes on, by which older ones tell changes."""
    clock = getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME)
    now = time.clock_gettime_ns(clock)
    while time.clock_gettime_ns(clock) == now:
        pass
