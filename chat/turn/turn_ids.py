"""Makes the ids of turns, which sort by time."""

import os
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from sessions_app.messages import Message

_PLAUSIBLE = re.compile(r"0[0-9a-f]{19}")
"""Ids of the years up to 2527; others in files are not ours."""


def new_turn_id(after: str = "") -> str:
    """Return a new id: the milliseconds as twelve hex digits, and eight random ones.

    Ids sort by time, and after the id ``after`` even if the clock was set back.
    """
    milliseconds = time.time_ns() // 1_000_000
    if after:
        milliseconds = max(milliseconds, int(after[:12], 16) + 1)
    return f"{milliseconds:012x}{os.urandom(4).hex()}"


def last_turn_id(messages: Sequence[Message]) -> str:
    """Return the id of the turn that spoke last, or an empty text."""
    ids = (message.turn_id for message in reversed(messages))
    return next((each for each in ids if each and _PLAUSIBLE.fullmatch(each)), "")


def started_at(turn_id: str) -> float:
    """Return the time at which a turn began, in seconds since 1970."""
    return int(turn_id[:12], 16) / 1000


def time_of(turn_id: str, *, earlier_seconds: float = 0.0) -> str:
    """Return the time at which a turn began, less some seconds: UTC, ISO 8601 with microseconds."""
    began = datetime.fromtimestamp(started_at(turn_id) - earlier_seconds, UTC)
    return began.isoformat(timespec="microseconds")
