"""Where new ids and the current time come from; everything else about sessions is pure."""

import os
import random
import uuid
from datetime import UTC, datetime

ID_LENGTH = 10

# Not the system's randomness: reading that lets go of the interpreter in the middle of a turn.
_chance = random.Random()  # noqa: S311 - message ids are names, not secrets
os.register_at_fork(after_in_child=_chance.seed)


def new_session_id() -> str:
    """Return ten random hex digits (seed 000 section 12.2). A name, not a secret."""
    return uuid.uuid4().hex[:ID_LENGTH]


def new_message_id() -> str:
    """Return ten random hex digits, unique within a session for all that matters."""
    return f"{_chance.getrandbits(4 * ID_LENGTH):0{ID_LENGTH}x}"


def new_file_tag() -> str:
    """Return sixteen random hex digits for the name of a temporary file. No secret."""
    return f"{_chance.getrandbits(64):016x}"


def utc_now() -> str:
    """Return the time as it is stored: UTC, ISO 8601 with microseconds and offset."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
