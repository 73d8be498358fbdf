"""Changing messages in the middle of a history."""

from collections.abc import Callable

import pytest

from sessions_app.edits import edit_user_message
from sessions_app.errors import InvalidMessageIndex, MessageChanged, ValidationFailed
from sessions_app.messages import Message
from sessions_app.session import Session, with_metadata

LATER = "2026-11-21T11:00:00.000000+00:00"

MakeSession = Callable[..., Session]


def contents(messages: tuple[Message, ...]) -> list[str]:
    return [message.content for message in messages]


def test_editing_a_user_message_cuts_off_what_came_after(make_session: MakeSession) -> None:
    session = make_session("one", "answer", "two", "answer")
    edited = edit_user_message(session, 2, "three", now=LATER)
    assert contents(edited.messages) == ["one", "answer", "three"]
    assert edited.messages[2].message_id == session.messages[2].message_id
    assert edited.messages[2].timestamp == LATER
    assert edited.metadata.message_count == 3


def test_a_summary_of_what_was_cut_off_goes_with_it(make_session: MakeSession) -> None:
    session = with_metadata(
        make_session("one", "answer", "my password", "answer"),
        now=LATER,
        summary={"summary": "They told a password.", "topics": []},
        summary_model="qwen3:14b",
        summary_due=LATER,
    )

    edited = edit_user_message(session, 2, "three", now=LATER).metadata

    assert (edited.summary, edited.summary_due) == (None, None)
    assert edited.summary_model == "qwen3:14b"


@pytest.mark.parametrize("index", [-1, 1, 4, 10**30])
def test_only_user_messages_that_exist_can_be_edited(make_session: MakeSession, index: int) -> None:
    with pytest.raises(InvalidMessageIndex) as raised:
        edit_user_message(make_session("one", "answer", "two", "a"), index, "x", now=LATER)
    assert raised.value.details["message_index"] == index


def test_the_message_id_guards_against_editing_another(make_session: MakeSession) -> None:
    session = make_session("one")
    with pytest.raises(MessageChanged):
        edit_user_message(session, 0, "x", now=LATER, message_id="ffffffffff")
    edit_user_message(session, 0, "x", now=LATER, message_id=session.messages[0].message_id)


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_blank_text_is_refused(make_session: MakeSession, text: str) -> None:
    with pytest.raises(ValidationFailed):
        edit_user_message(make_session("one"), 0, text, now=LATER)
