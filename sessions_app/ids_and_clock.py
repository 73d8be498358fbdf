"""Generates ids and reads the clock; all other session logic is pure."""

import os
import random
import re
import uuid
from datetime import UTC, datetime
from typing import Protocol

ID_LENGTH = 10
SESSION_ID = f"[0-9a-f]{{{ID_LENGTH}}}"
"""The pattern of a session id, defined only here."""

_is_session_id = re.compile(SESSION_ID, re.ASCII).fullmatch

# Not os.urandom, which releases the GIL in the middle of a turn.
_chance = random.Random()  # noqa: S311 - message ids are not secrets
os.register_at_fork(after_in_child=_chance.seed)


class SharedClock(Protocol):
    """Tells the time of data that processes share."""

    def __call__(self) -> float:
        """Return the seconds since 1970."""
        ...


def new_session_id() -> str:
    """Return ten random hex digits. Not a secret."""
    return uuid.uuid4().hex[:ID_LENGTH]


def is_session_id(text: str) -> bool:
    """Return whether the text can be a session id, and so part of a path."""
    return _is_session_id(text) is not None


def new_message_id() -> str:
    """Return ten random hex digits, practically unique within a session."""
    return f"{_chance.getrandbits(4 * ID_LENGTH):0{ID_LENGTH}x}"


def new_file_tag() -> str:
    """Return sixteen random hex digits for the name of a temporary file. Not a secret."""
    return f"{_chance.getrandbits(64):016x}"


def utc_now() -> str:
    """Return the current time as stored: UTC, ISO 8601 with microseconds and offset."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
