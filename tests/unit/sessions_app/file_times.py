"""A clock of files that goes on."""

import time


def await_tick() -> None:
    """Wait until the kernel's coarse clock goes on, by which older ones tell changes."""
    clock = getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME)
    now = time.clock_gettime_ns(clock)
    while time.clock_gettime_ns(clock) == now:
        pass
