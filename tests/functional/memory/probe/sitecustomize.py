"""Lets a test look into the server process under test: SIGUSR1 writes what lives in it.

SIGUSR2 writes how often all garbage was collected, and collects none.

Python imports this first where its folder is on ``PYTHONPATH``.
"""

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType


class Mallinfo(ctypes.Structure):
    """What glibc's ``mallinfo2`` returns: sizes in bytes, of all arenas together."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def heap_in_use() -> int:
    """Return the bytes that C code and Python have from ``malloc``; 0 where it does not tell."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = Mallinfo
    now = mallinfo()
    return int(now.uordblks + now.hblkhd)


def look(_number: int, _frame: FrameType | None) -> None:
    """Write counts of what lives, as JSON, at once."""
    gc.collect()
    objects = gc.get_objects()
    kinds = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in objects)
    del objects
    try:
        tasks = len(asyncio.all_tasks(asyncio.get_running_loop()))
    except RuntimeError:
        tasks = -1
    seen = {
        "heap": heap_in_use(),
        "blocks": sys.getallocatedblocks(),
        "tasks": tasks,
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "kinds": dict(kinds),
    }
    write(seen)


def count(_number: int, _frame: FrameType | None) -> None:
    """Write the number of full collections, as JSON, at once."""
    write({"full_collections": gc.get_stats()[2]["collections"]})


def write(seen: dict[str, object]) -> None:
    """Write what was seen where the test waits for it."""
    path = Path(os.environ["MOCHI_E2E_PROBE"])
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(seen))
    temporary.replace(path)


if "MOCHI_E2E_PROBE" in os.environ:
    signal.signal(signal.SIGUSR1, look)
    signal.signal(signal.SIGUSR2, count)
