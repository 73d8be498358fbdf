"""What an index keeps of objects: the same from the beginning, the whole, and its own entry."""

import json
from typing import Any

import pytest
from hypothesis import given

from cluster_app.objects.indexed import (
    Indexed,
    from_entry,
    from_head,
    from_whole,
    to_entry,
    unreadable,
)
from sessions_app.format.codec import encode
from sessions_app.session import Session
from sessions_app.store.repository import Claim, Unreadable
from tests.unit.sessions_app.format.sessions import SESSION_ID, sessions

CLAIM = Claim(session_id=SESSION_ID, turn_id="a-turn", owner="an-owner", started_at="now")
TURN = {"id": "a-turn", "worker": "an-owner", "started_at": "now", "calls": ["call_1"]}


def claimed(**keys: Any) -> bytes:
    """Return an object with these keys between its metadata and its messages."""
    now = "2026-01-01T00:00:00.000000+00:00"
    metadata = {
        "model": "m",
        "created_at": now,
        "message_count": 1,
        "format_version": "1.3",
        "preview": "Hello",
    }
    message = {"role": "user", "content": "Hello", "message_id": "a1b2c3d4e5", "timestamp": now}
    return json.dumps({"metadata": metadata, **keys, "messages": [message]}, indent=2).encode()


@given(sessions)
def test_an_entry_is_read_as_it_was_written(session: Session) -> None:
    kept = Indexed(etag="tag", found=from_whole(encode(session), SESSION_ID, "").found, claim=CLAIM)
    assert from_entry(to_entry(kept), SESSION_ID) == kept


@given(sessions)
def test_the_beginning_tells_what_the_whole_object_tells(session: Session) -> None:
    data = encode(session)
    assert from_head(data, SESSION_ID, "tag") in (None, from_whole(data, SESSION_ID, "tag"))


def test_an_object_that_is_no_session_has_an_entry_that_says_why() -> None:
    kept = from_whole(b"{}", SESSION_ID, "tag")
    assert isinstance(kept.found, Unreadable)
    assert (
        from_entry(to_entry(kept), SESSION_ID)
        == kept
        == unreadable(SESSION_ID, kept.found.reason, "tag")
    )


@pytest.mark.parametrize("before", [{}, {"revision": "0" * 16, "new": [{"messages": 1}]}])
def test_a_claim_is_found_before_the_messages(before: dict[str, Any]) -> None:
    data = claimed(**before, turn=TURN)
    for kept in (from_head(data, SESSION_ID, "tag"), from_whole(data, SESSION_ID, "tag")):
        assert kept is not None
        assert kept.claim == CLAIM
    assert from_head(claimed(**before), SESSION_ID, "tag") == from_whole(
        claimed(**before), SESSION_ID, "tag"
    )


def test_a_beginning_without_the_whole_claim_tells_nothing() -> None:
    data = claimed(revision="0" * 16, turn=TURN)
    messages = data.index(b'"messages"')
    for size in range(data.rindex(b"}", 0, messages) + 1):
        assert from_head(data[:size], SESSION_ID, "tag") is None
    assert from_head(data[: messages + 10], SESSION_ID, "tag") is not None


@pytest.mark.parametrize("turn", [7, [], {"id": 7}, None])
def test_a_claim_that_makes_no_sense_is_nobodys(turn: Any) -> None:
    kept = from_whole(claimed(turn=turn), SESSION_ID, "tag")
    assert not isinstance(kept.found, Unreadable)
    assert kept.claim is None
    assert from_head(claimed(turn=turn), SESSION_ID, "tag") in (None, kept)


@pytest.mark.parametrize("entry", [b"", b"{}", b"[]", b"{", b'{"etag": "t", "metadata": {}}'])
def test_an_entry_of_another_shape_can_not_be_read(entry: bytes) -> None:
    assert from_entry(entry, SESSION_ID) is None
