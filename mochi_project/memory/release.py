"""Returns the memory of a large session to the system.

glibc keeps freed memory in an arena for each thread: after a few turns with a session of 50 MiB the
process kept 950 MiB.
"""

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

LARGE_BYTES = 256 * 1024 * 1024
BUFFER_BYTES = 1024 * 1024
"""The size of buffers from which on each is mapped by itself."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # parameters of mallopt(3)
_STATM = Path("/proc/self/statm")


def map_large_buffers() -> bool:
    """Have glibc map each buffer of 1 MiB or more, so that its memory is returned when it is freed.

    By default glibc raises this threshold to the size of freed buffers, up to 32 MiB, and keeps
    twice as much at the end of the arena of each thread, where not even trimming frees it. Works
    only on Linux with glibc. Source: mallopt(3), "M_MMAP_THRESHOLD"; docs/decisions/0107.

    Returns:
        Whether glibc does so.
    """
    if sys.platform != "linux" or not hasattr(libc := ctypes.CDLL(None), "mallopt"):
        return False
    return all(
        libc.mallopt(option, BUFFER_BYTES) for option in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD)
    )


def give_back_memory(above: int = LARGE_BYTES) -> bool:
    """Return free memory to the system if the process is larger than usual. Blocks.

    Takes 0.2 s for half a GiB, without the GIL. Works only on Linux with glibc.

    Args:
        above: The minimum resident bytes.

    Returns:
        Whether trimming was requested.
    """
    resident = 0
    with suppress(OSError):  # not Linux
        resident = int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if resident <= above:
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True
