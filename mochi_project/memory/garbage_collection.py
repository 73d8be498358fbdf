"""Schedules garbage collections so that streams do not wait for them (docs/decisions/0108).

A full collection visits every object that can be part of a cycle: 110,000 with 400 open streams,
which takes 90 ms. By default Python runs one whenever their number has grown by a quarter.
"""

import asyncio
import gc
import sys
from collections.abc import Callable

IS_INCREMENTAL = (3, 14) <= sys.version_info < (3, 14, 5)
"""True where Python collects in small steps by itself. Later versions do not any more
(https://docs.python.org/3.15/whatsnew/3.15.html, "gc")."""
THRESHOLDS = (700, 1, 1_000)
"""For ``gc.set_threshold``. Young objects are visited twice, at most 2,100 at once (4 ms with 400
streams); Python's defaults visit up to 7,700 (14 ms). The last number bounds the garbage of a
server that is never idle: all objects are visited after 1,000 of those second visits."""
CHECK_SECONDS = 5.0
PROMOTIONS = 20
"""The collections that moved survivors to the old objects before a full one is worth its time: an
idle server has 11,000 objects, which takes 9 ms."""


def shorten_collections() -> None:
    """Set the thresholds of the collector, in a process that does nothing but serve."""
    if not IS_INCREMENTAL:
        gc.set_threshold(*THRESHOLDS)


async def collect_when_idle(is_idle: Callable[[], bool]) -> None:
    """Run full collections while no turn runs, until cancelled.

    Args:
        is_idle: Returns whether no turn runs in this process.
    """
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        if gc.get_count()[2] >= PROMOTIONS and is_idle():
            gc.collect()
