"""Finds the sessions in a listing that are past their retention. Pure (docs/decisions/0080).

Ages are measured until now, but at most until a day after the last change of any session, so that a
clock that jumps ahead does not expire sessions of an unused server.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from sessions_app.session import Session, SessionMetadata

REFUSED_DAYS = 1
"""The age at which a session made for a refused request is deleted."""

LEAST_PER_DAY = 10
LEAST_SHARE_PER_DAY = 0.1
"""The sessions that may expire in a day, as a number and as a share of all: the larger counts."""

_DAY = timedelta(days=1)
_CHANGES = ("updated_at", "labels_changed_at", "pinned")


class SessionKept(Exception):
    """Raised to keep a session that has changed since it was listed."""


class DueSessions(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions to be deleted now, least recently changed first.

    Attributes:
        refused: Sessions made for refused requests.
        expired: Sessions past their retention, up to the daily limit.
        waiting: The number of further such sessions, above the daily limit.
        total: The number of all sessions.
    """

    refused: Sequence[SessionMetadata] = ()
    expired: Sequence[SessionMetadata] = ()
    waiting: int = 0
    total: int = 0


def due_in(
    sessions: Sequence[SessionMetadata], *, days: int, now: datetime, deleted_today: int = 0
) -> DueSessions:
    """Return the sessions to be deleted.

    Args:
        sessions: All sessions.
        days: The retention in days since the last change; 0 for no expiry.
        now: The time.
        deleted_today: The number of sessions expired in the last 24 hours.
    """
    changed = {one.session_id: when for one in sessions if (when := _changed_at(one)) is not None}
    until = min(now, max(changed.values(), default=now) + _DAY)
    by_age = sorted(
        (one for one in sessions if one.session_id in changed),
        key=lambda one: changed[one.session_id],
    )
    refused = [
        one
        for one in by_age
        if is_refused(one) and until - changed[one.session_id] >= _DAY * REFUSED_DAYS
    ]
    expired = [
        one
        for one in by_age
        if days and may_expire(one) and until - changed[one.session_id] >= _DAY * days
    ]
    gone = {one.session_id for one in refused}
    expired = [one for one in expired if one.session_id not in gone]
    allowed = max(allowed_per_day(len(sessions), days) - deleted_today, 0) if days else 0
    return DueSessions(
        refused=refused,
        expired=expired[:allowed],
        waiting=len(expired[allowed:]),
        total=len(sessions),
    )


def allowed_per_day(total: int, days: int) -> int:
    """Return the daily limit of expiring sessions.

    It is twice the number that expires daily in a steady state, and at least a tenth of all.
    """
    share = min(max(LEAST_SHARE_PER_DAY, 2 / days), 1.0)
    return max(LEAST_PER_DAY, int(total * share))


def may_expire(metadata: SessionMetadata) -> bool:
    """Return whether a session may expire: it is neither pinned nor imported, and nothing waits.

    The last change of an imported session does not tell when it was imported.
    """
    return not metadata.pinned and metadata.imported_from is None and not metadata.queued


def is_refused(metadata: SessionMetadata) -> bool:
    """Return whether a session was made for a refused request and not changed since.

    An older server keeps the mark when it changes the session, so the fields it changes are
    checked, too.
    """
    touched = (
        metadata.pinned,
        metadata.archived,
        metadata.titled_by,
        metadata.metadata,
        metadata.summary,
        metadata.imported_from,
    )
    return (
        metadata.refused_at is not None
        and metadata.refused_at == metadata.updated_at
        and not any(touched)
    )


def require_unchanged(listed: SessionMetadata, session: Session) -> None:
    """Check that a session has not changed since it was listed.

    Raises:
        SessionKept: The session has changed.
    """
    now = session.metadata
    if any(getattr(now, name) != getattr(listed, name) for name in _CHANGES):
        raise SessionKept
    if listed.refused_at is not None and not is_refused(now) and is_refused(listed):
        raise SessionKept


def _changed_at(metadata: SessionMetadata) -> datetime | None:
    """Return when a session or its labels were last changed; None if the former is no time."""
    changed = _time(metadata.updated_at)
    labelled = _time(metadata.labels_changed_at or "")
    if changed is None or labelled is None:
        return changed
    return max(changed, labelled)


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
