"""Finds the sessions in a listing that are past their retention. Pure (docs/decisions/0080).

Ages are counted up to now, but no further than a day after the last change of any session: a clock
that jumps ahead makes nothing old as long as nobody uses the server.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from sessions_app.session import Session, SessionMetadata

REFUSED_DAYS = 1
"""The age at which a session goes that was made for a request which was refused."""

LEAST_PER_DAY = 10
LEAST_SHARE_PER_DAY = 0.1
"""The sessions that age may delete in a day, and their share of all: the larger counts."""

_DAY = timedelta(days=1)


class Kept(Exception):
    """The session is not to be deleted any more: something has happened to it since."""


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that are to be deleted now, those changed longest ago first.

    Attributes:
        refused: Those of requests that were refused.
        expired: Those that nobody changed for so long, within what a day allows.
        waiting: How many of those have to wait for another day.
        total: How many sessions there are.
    """

    refused: Sequence[SessionMetadata] = ()
    expired: Sequence[SessionMetadata] = ()
    waiting: int = 0
    total: int = 0


def due_in(
    sessions: Sequence[SessionMetadata], *, days: int, now: datetime, deleted_today: int = 0
) -> Due:
    """Return the sessions that are to be deleted.

    Args:
        sessions: All sessions.
        days: For how many days nobody changed those that expire; 0: none expires.
        now: The time.
        deleted_today: How many were deleted for their age since a day ago.
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
    return Due(
        refused=refused,
        expired=expired[:allowed],
        waiting=len(expired[allowed:]),
        total=len(sessions),
    )


def allowed_per_day(total: int, days: int) -> int:
    """Return how many of all sessions may be deleted in a day for their age.

    Twice what goes in a day where the same number comes each day, and a tenth at least.
    """
    share = min(max(LEAST_SHARE_PER_DAY, 2 / days), 1.0)
    return max(LEAST_PER_DAY, int(total * share))


def may_expire(metadata: SessionMetadata) -> bool:
    """Return whether age alone may delete a session: one that is neither pinned nor imported.

    When an imported one was last changed says nothing of when it came here.
    """
    return not metadata.pinned and metadata.imported_from is None


def is_refused(metadata: SessionMetadata) -> bool:
    """Return whether a session was made for a request that was refused, and left at that.

    An earlier server keeps the mark while it changes the session, so what it would change counts.
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
    """Refuse to delete a session that has changed since it was listed.

    Raises:
        Kept: It has.
    """
    now = session.metadata
    if now.updated_at != listed.updated_at or now.pinned != listed.pinned:
        raise Kept
    if listed.refused_at is not None and not is_refused(now) and is_refused(listed):
        raise Kept


def _changed_at(metadata: SessionMetadata) -> datetime | None:
    try:
        changed = datetime.fromisoformat(metadata.updated_at)
    except ValueError:
        return None
    return changed if changed.tzinfo else changed.replace(tzinfo=UTC)
