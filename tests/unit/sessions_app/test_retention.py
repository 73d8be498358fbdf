"""Which sessions are deleted for their age, whatever the clock does."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.retention import (
    DueSessions,
    SessionKept,
    allowed_per_day,
    due_in,
    is_refused,
    require_unchanged,
)
from sessions_app.session import Session, SessionMetadata, make_session, with_refusal

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def written(when: datetime) -> str:
    return when.isoformat(timespec="microseconds")


def old(days: float, name: str | None = None, **fields: Any) -> SessionMetadata:
    changed = written(NOW - timedelta(days=days))
    session_id = name or f"{int(days * 1000):010x}"
    return SessionMetadata(
        session_id=session_id, model="m", created_at=changed, updated_at=changed, **fields
    )


def refused(days: float, **fields: Any) -> SessionMetadata:
    made = with_refusal(Session(metadata=old(days))).metadata
    return msgspec.structs.replace(made, **fields)


def expired(
    sessions: Sequence[SessionMetadata], days: int = 30, now: datetime = NOW
) -> DueSessions:
    return due_in(sessions, days=days, now=now)


def test_what_nobody_changed_for_so_long_expires_the_oldest_first() -> None:
    sessions = [old(0), old(29.9), old(30), old(400), old(31)]
    assert list(expired(sessions).expired) == [sessions[3], sessions[4], sessions[2]]
    assert expired(sessions, days=0).expired == []


def test_pinned_and_imported_sessions_and_those_with_waiting_messages_stay() -> None:
    sessions = [
        old(0),
        old(99, pinned=True),
        old(98, imported_from={"source": "x", "id": "1"}),
        old(97, queued=1),
    ]
    assert expired(sessions).expired == []


def test_a_session_whose_labels_were_set_lately_stays() -> None:
    lately = written(NOW - timedelta(days=29))
    labelled = old(99, labels_changed_at=lately)
    sessions = [old(0), labelled, old(98, labels_changed_at="?"), old(20, labels_changed_at="1970")]
    assert list(expired(sessions).expired) == [sessions[2]]
    assert list(expired(sessions, days=29).expired) == [sessions[2], labelled]


@pytest.mark.parametrize("text", ["", "0", "yesterday", "1970"])
def test_a_time_that_makes_no_sense_is_no_age(text: str) -> None:
    strange = msgspec.structs.replace(old(5), updated_at=text)
    assert expired([old(0), strange, old(40)]).expired == [old(40)]


def test_a_clock_that_jumps_ahead_makes_nothing_old_while_nobody_uses_the_server() -> None:
    sessions = [old(days) for days in range(28)]
    assert expired(sessions, now=NOW + timedelta(days=4000)).expired == []
    assert expired(sessions, now=NOW - timedelta(days=4000)).expired == []


def test_a_clock_that_jumps_ahead_for_all_costs_few_a_day_and_is_told() -> None:
    later = NOW + timedelta(days=4000)
    new = msgspec.structs.replace(old(0, "ffffffffff"), updated_at=written(later))
    sessions = [new, *(old(days) for days in range(200))]
    due = expired(sessions, now=later)
    assert (len(due.expired), due.waiting, due.total) == (20, 180, 201)
    again = due_in(sessions, days=30, now=later, deleted_today=20)
    assert (len(again.expired), again.waiting) == (0, 200)


@given(total=st.integers(0, 10**5), days=st.integers(1, 36500))
def test_what_a_day_allows_is_enough_for_what_comes_each_day(total: int, days: int) -> None:
    assert allowed_per_day(total, days) >= min(total, 10)
    assert allowed_per_day(total, days) >= int(total / days)
    if days >= 20 and total > 100:
        assert allowed_per_day(total, days) <= total / 10


def test_a_session_of_a_refused_request_is_swept_a_day_later_and_no_other_empty_one() -> None:
    made = make_session("a1b2c3d4e5", "m", now=written(NOW - timedelta(days=90))).metadata
    sessions = [old(0), refused(0.9), refused(1.1), made]
    due = due_in(sessions, days=0, now=NOW)
    assert (due.refused, due.expired) == ([sessions[2]], [])


@pytest.mark.parametrize(
    "touched",
    [
        {"updated_at": written(NOW)},
        {"title": "Mine", "titled_by": "person"},
        {"pinned": True},
        {"archived": True},
        {"metadata": {"folder": "x"}},
        {"summary": {"summary": "x"}},
        {"refused_at": None},
    ],
    ids=lambda touched: next(iter(touched)),
)
def test_what_anybody_has_touched_since_is_not_swept(touched: dict[str, Any]) -> None:
    assert is_refused(refused(5))
    assert not is_refused(refused(5, **touched))


def test_a_session_that_changed_since_it_was_listed_is_kept() -> None:
    for listed in (old(40), refused(40)):
        require_unchanged(listed, Session(metadata=listed))
        changes: list[dict[str, Any]] = [
            {"updated_at": written(NOW)},
            {"labels_changed_at": written(NOW)},
            {"pinned": True},
        ]
        for change in changes:
            changed = msgspec.structs.replace(listed, **change)
            with pytest.raises(SessionKept):
                require_unchanged(listed, Session(metadata=changed))
    renamed = msgspec.structs.replace(refused(40), title="x", titled_by="person")
    with pytest.raises(SessionKept):
        require_unchanged(refused(40), Session(metadata=renamed))
