"""Derives row ids of an index from the time of the session, so that rows are in order. Pure."""

from datetime import UTC, datetime

_ROWS_OF_A_MICROSECOND = 11  # bits: with those of microseconds, 63 until the year 2112
_MOST_MICROSECONDS = (1 << 52) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def row_at(updated_at: str) -> int:
    """Return the first row id of sessions changed at this time."""
    try:
        time = datetime.fromisoformat(updated_at)
    except ValueError:
        return 0
    since_epoch = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
    microseconds = (since_epoch.days * 86_400 + since_epoch.seconds) * 1_000_000
    microseconds += since_epoch.microseconds
    return min(max(microseconds, 0), _MOST_MICROSECONDS) << _ROWS_OF_A_MICROSECOND
