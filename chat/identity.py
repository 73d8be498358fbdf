"""Where the ids of turns come from."""

import secrets
import time


def new_turn_id(after: str = "") -> str:
    """Return a new id: twelve hex digits of milliseconds, eight of chance.

    Ids sort by time, and after ``after`` even when the clock was set back.
    """
    milliseconds = time.time_ns() // 1_000_000
    if after:
        milliseconds = max(milliseconds, int(after[:12], 16) + 1)
    return f"{milliseconds:012x}{secrets.token_hex(4)}"
