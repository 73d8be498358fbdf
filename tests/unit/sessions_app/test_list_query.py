"""Pages of a listing: filters, orders, and cursors that nothing shifts."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.errors import ValidationFailed
from sessions_app.list_query import ListQuery, Order, Sort, page_of
from sessions_app.session import SessionMetadata
from sessions_app.store import repository
from sessions_app.store.repository import Listing

NOW = "2026-11-21T10:00:00.000000+00:00"


def made(session_id: str, **fields: Any) -> SessionMetadata:
    return SessionMetadata(
        **{"session_id": session_id, "model": "m", "created_at": NOW, "updated_at": NOW, **fields}
    )


def listing_of(*sessions: SessionMetadata) -> Listing:
    return repository.listing_of(sessions)


def ids(*sessions: SessionMetadata, **query: Any) -> list[str]:
    return [one.session_id for one in page_of(listing_of(*sessions), ListQuery(**query)).sessions]


@pytest.mark.parametrize("complete", [True, False])
def test_a_page_says_whether_more_sessions_are_still_looked_for(complete: bool) -> None:
    listing = Listing(sessions=(), unreadable=(), complete=complete)
    assert page_of(listing, ListQuery(limit=1)).complete is complete


def test_titles_are_searched_in_upper_and_lower_case() -> None:
    sessions = made("a", title="Möwen am Meer"), made("b", preview="möwen?"), made("c")
    assert ids(*sessions, q="MÖWEN") == ["b", "a"]


def test_sessions_are_filtered_by_where_they_were_put() -> None:
    sessions = made("a", pinned=True), made("b", archived=True), made("c", pinned=False)
    assert ids(*sessions) == ["c", "b", "a"]
    assert ids(*sessions, pinned=True) == ["a"]
    assert ids(*sessions, pinned=False) == ["c", "b"]
    assert ids(*sessions, archived=False) == ["c", "a"]
    assert ids(*sessions, archived=True, pinned=False) == ["b"]


def test_sessions_are_filtered_by_what_a_client_remembers_of_them() -> None:
    sessions = (
        made("a", metadata={"project": "sea", "stars": 3}),
        made("b", metadata={"project": "sea", "stars": "3", "done": True}),
        made("c", metadata={"project": "Sea"}),
        made("d"),
    )
    assert ids(*sessions, metadata={"project": "sea"}) == ["b", "a"]
    assert ids(*sessions, metadata={"project": "sea", "done": "true"}) == ["b"]
    assert ids(*sessions, metadata={"stars": "3"}) == ["b", "a"]
    assert ids(*sessions, metadata={"none": "null"}) == []


def test_sessions_are_filtered_by_what_only_others_know_of_them() -> None:
    sessions = made("a" * 10), made("b" * 10), made("c" * 10)
    wanted = {"a" * 10, "c" * 10}
    assert ids(*sessions, only=lambda one: one.session_id in wanted, limit=1) == ["c" * 10]
    assert ids(*sessions, only=lambda one: one.session_id in wanted) == ["c" * 10, "a" * 10]


@pytest.mark.parametrize(
    ("sort", "order", "expected"),
    [
        ("updated", None, ["c", "a", "b"]),
        ("updated", "asc", ["b", "a", "c"]),
        ("created", None, ["b", "a", "c"]),
        ("created", "asc", ["c", "a", "b"]),
        ("title", None, ["c", "b", "a"]),
        ("title", "desc", ["a", "b", "c"]),
    ],
)
def test_sessions_are_ordered(sort: Sort, order: Order | None, expected: list[str]) -> None:
    sessions = (
        made("a", updated_at="2026-02", created_at="2026-02", title="zebra"),
        made("b", updated_at="2026-01", created_at="2026-03", title="Yak"),
        made("c", updated_at="2026-03", created_at="2026-01", preview="ant, said the bear"),
    )
    assert ids(*sessions, sort=sort, order=order) == expected


@given(
    times=st.lists(st.sampled_from("123"), max_size=12),
    gone=st.sets(st.integers(0, 11)),
    size=st.integers(1, 5),
    sort=st.sampled_from(["updated", "created", "title"]),
    order=st.sampled_from([None, "asc", "desc"]),
)
def test_pages_show_every_session_once_whatever_goes_meanwhile(
    times: list[str], gone: set[int], size: int, sort: Sort, order: Order | None
) -> None:
    sessions = [
        made(f"{number:02}", updated_at=time, created_at=time, title=time)
        for number, time in enumerate(times)
    ]
    query = ListQuery(limit=size, sort=sort, order=order)
    whole = [
        one.session_id
        for one in page_of(listing_of(*sessions), ListQuery(sort=sort, order=order)).sessions
    ]
    first = page_of(listing_of(*sessions), query)
    left = [one for number, one in enumerate(sessions) if number not in gone]
    seen = [one.session_id for one in first.sessions]
    cursor = first.next_cursor
    while cursor is not None:
        page = page_of(listing_of(*left), msgspec.structs.replace(query, cursor=cursor))
        seen += [one.session_id for one in page.sessions]
        cursor = page.next_cursor
    there = {one.session_id for one in left} | {one.session_id for one in first.sessions}
    assert seen == [session_id for session_id in whole if session_id in there]


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "====", "ü", "WzFd"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(ValidationFailed, match="next_cursor"):
        page_of(listing_of(made("a")), ListQuery(cursor=cursor))


def test_a_cursor_of_another_order_is_refused() -> None:
    listing = listing_of(made("a"), made("b"))
    cursor = page_of(listing, ListQuery(limit=1)).next_cursor
    with pytest.raises(ValidationFailed, match="same order"):
        page_of(listing, ListQuery(limit=1, sort="title", cursor=cursor))
