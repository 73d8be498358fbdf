"""Lets a test look into the server process under test: SIGUSR1 writes what lives in it.

SIGUSR2 writes how often all garbage was collected, and collects none. From the first of them on,
the longest pause of the event loop is in the file ``MOCHI_E2E_PAUSES``.

Python imports this first where its folder is on ``PYTHONPATH``.
"""

import asyncio
import ctypes
import gc
import json
import mmap
import os
import signal
import struct
import sys
import threading
import time
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


class PauseMeter:
    """Keeps the longest pause of the event loop, in seconds, in a file of two numbers.

    The second number counts ticks. What counts is the time that the process worked: a machine with
    other load makes no pause.
    """

    EVERY = 0.005

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 16)
        self._loop = asyncio.get_running_loop()
        self._last = self._now()
        self._loop.call_soon_threadsafe(self._tick)

    def _now(self) -> tuple[float, float]:
        return time.monotonic(), time.process_time()

    def _tick(self) -> None:
        now = self._now()
        pause = min(new - old for new, old in zip(now, self._last, strict=True))
        longest, ticks = struct.unpack("dd", self._shared[:])
        self._shared[:] = struct.pack("dd", max(longest, pause), ticks + 1)
        self._last = self._now()
        self._loop.call_later(self.EVERY, self._tick)


METERS: list[PauseMeter] = []


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
    if not METERS and "MOCHI_E2E_PAUSES" in os.environ:
        METERS.append(PauseMeter(os.environ["MOCHI_E2E_PAUSES"]))
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
