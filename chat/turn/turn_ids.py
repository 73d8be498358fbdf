"""Makes the ids of turns, which sort by time."""

import os
import time
from datetime import UTC, datetime


def new_turn_id(after: str = "") -> str:
    """Return a new id: the milliseconds as twelve hex digits, and eight random ones.

    Ids sort by time, and after the id ``after`` even if the clock was set back.
    """
    milliseconds = time.time_ns() // 1_000_000
    if after:
        milliseconds = max(milliseconds, int(after[:12], 16) + 1)
    return f"{milliseconds:012x}{os.urandom(4).hex()}"


def time_of(turn_id: str, *, earlier_seconds: float = 0.0) -> str:
    """Return the time at which a turn began, less some seconds: UTC, ISO 8601 with microseconds."""
    began = datetime.fromtimestamp(int(turn_id[:12], 16) / 1000 - earlier_seconds, UTC)
    return began.isoformat(timespec="microseconds")
