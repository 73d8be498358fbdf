"""Where new ids and the current time come from; everything else about sessions is pure."""

import uuid
from datetime import UTC, datetime

ID_LENGTH = 10


def new_session_id() -> str:
    """Return ten random hex digits (seed 000 section 12.2). A name, not a secret."""
    return uuid.uuid4().hex[:ID_LENGTH]


def new_message_id() -> str:
    """Return ten random hex digits."""
    return uuid.uuid4().hex[:ID_LENGTH]


def utc_now() -> str:
    """Return the time as it is stored: UTC, ISO 8601 with microseconds and offset."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
