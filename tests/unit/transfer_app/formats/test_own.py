"""Sessions of this server, as lines of JSON: what comes in is what went out, byte by byte."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from sessions_app.format.codec import document_of, encode, to_json
from sessions_app.format.message_format import messages_to_json
from sessions_app.session import Session
from tests.unit.sessions_app.format.sessions import sessions
from transfer_app.formats.conversation import UnusableEntry
from transfer_app.formats.own import parse


@given(sessions)
def test_a_session_comes_back_as_it_was(session: Session) -> None:
    file = encode(session)
    line = to_json(document_of(session, messages_to_json(session.messages)))
    assert b"\n" not in line
    assert encode(parse(msgspec.json.decode(line))) == file


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"metadata": {"session_id": "../../etc"}}, "session_id"),
        ({"metadata": {"session_id": "0123456789"}}, "can't be read"),
    ],
)
def test_an_entry_that_is_none_is_refused(entry: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnusableEntry, match=reason):
        parse(entry)
