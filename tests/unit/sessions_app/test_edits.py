"""Changing messages in the middle of a history."""

import json
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import pytest

from sessions_app.calls import pair_calls
from sessions_app.context_state import ContextState
from sessions_app.edits import Rewind, delete_message, edit_user_message, hide_message, rewind
from sessions_app.errors import InvalidMessageIndex, MessageChanged, ValidationFailed
from sessions_app.format.codec import decode, encode
from sessions_app.labels import titled_by_message
from sessions_app.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    shown,
)
from sessions_app.session import Session, with_messages, with_metadata
from sessions_app.session import make_session as make
from sessions_app.variants import choose_variant, extend_answer

NOW = "2026-11-21T10:00:00.000000+00:00"
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


def test_going_back_to_a_message_keeps_its_answer_unless_it_is_edited(
    make_session: MakeSession,
) -> None:
    session = make_session("one", "answer", "two", "answer", "three")
    to = session.messages[0].message_id

    again = rewind(session, Rewind(message_id=to), now=LATER)
    assert contents(again.messages) == ["one", "answer"]
    edited = rewind(session, Rewind(message_id=to, content="1"), now=LATER)
    assert contents(edited.messages) == ["1"]
    last = Rewind(message_id=session.messages[4].message_id)
    assert rewind(session, last, now=LATER) is session
    with pytest.raises(MessageChanged):
        rewind(session, Rewind(message_id="gone"), now=LATER)


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


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ((), "There is no message 0: the session has no messages."),
        (("one", "answer"), "There is no message 2; message_index may be 0 to 1."),
    ],
)
def test_an_index_of_no_message_is_answered_with_those_that_there_are(
    make_session: MakeSession, texts: Sequence[str], sentence: str
) -> None:
    with pytest.raises(InvalidMessageIndex) as raised:
        edit_user_message(make_session(*texts), len(texts), "x", now=LATER)
    assert raised.value.message == sentence


def test_the_message_id_guards_against_editing_another(make_session: MakeSession) -> None:
    session = make_session("one")
    with pytest.raises(MessageChanged):
        edit_user_message(session, 0, "x", now=LATER, message_id="ffffffffff")
    edit_user_message(session, 0, "x", now=LATER, message_id=session.messages[0].message_id)


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_blank_text_is_refused(make_session: MakeSession, text: str) -> None:
    with pytest.raises(ValidationFailed):
        edit_user_message(make_session("one"), 0, text, now=LATER)


# --- Deleting and hiding -----------------------------------------------------------------------


def with_tools(*, prompt: bool = False) -> Session:
    """Return a session whose first answer called two tools."""
    calls = tuple(ToolCall(id=f"c{n}", name="f", arguments={}) for n in range(2))
    common = {"timestamp": NOW}
    messages: list[Message] = [
        UserMessage(content="one", message_id="u1", **common),
        AssistantMessage(content="", message_id="a1", tool_calls=calls, **common),
        ToolMessage(content="r0", message_id="r0", tool_call_id="c0", **common),
        ToolMessage(content="r1", message_id="r1", tool_call_id="c1", **common),
        AssistantMessage(content="answer", message_id="a2", **common),
        UserMessage(content="two", message_id="u2", **common),
        AssistantMessage(content="answer", message_id="a3", **common),
    ]
    if prompt:
        messages.insert(0, SystemMessage(content="Be brief.", message_id="s", **common))
    return with_messages(make("a1b2c3d4e5", "m", now=NOW), messages, now=NOW)


def ids(session: Session) -> list[str]:
    return [message.message_id for message in session.messages]


def hidden_in(session: Session) -> list[str]:
    return [message.message_id for message in session.messages if message.hidden]


@pytest.mark.parametrize(
    ("index", "gone"),
    [
        (0, ["u1"]),
        (1, ["a1", "r0", "r1"]),
        (2, ["a1", "r0", "r1"]),
        (3, ["a1", "r0", "r1"]),
        (4, ["a2"]),
        (6, ["a3"]),
    ],
)
def test_a_message_goes_alone_and_calls_with_their_results(index: int, gone: list[str]) -> None:
    session = with_tools()
    deleted = delete_message(session, index, now=LATER)
    assert ids(deleted) == [each for each in ids(session) if each not in gone]
    assert deleted.metadata.message_count == len(deleted.messages)
    assert tuple(pair_calls(deleted.messages)) == deleted.messages
    hidden = hide_message(session, index, hidden=True, now=LATER)
    assert hidden_in(hidden) == gone
    assert tuple(pair_calls(shown(hidden.messages))) == tuple(shown(hidden.messages))


def test_what_is_shown_again_is_as_it_was() -> None:
    session = with_tools()
    hidden = hide_message(session, 2, hidden=True, now=LATER)
    assert hide_message(hidden, 1, hidden=True, now=LATER) == hidden
    assert hide_message(hidden, 3, hidden=False, now=LATER).messages == session.messages


def test_what_one_hand_hid_is_hidden_as_a_whole() -> None:
    session = with_tools()
    half = (*session.messages[:2], msgspec.structs.replace(session.messages[2], hidden=True))
    half = (*half, *session.messages[3:])
    session = with_messages(session, half, now=NOW)
    assert hidden_in(hide_message(session, 1, hidden=True, now=LATER)) == ["a1", "r0", "r1"]
    assert hidden_in(hide_message(session, 1, hidden=False, now=LATER)) == []


def test_the_guard_and_the_system_prompt_hold_for_both() -> None:
    session = with_tools(prompt=True)
    for change in (delete_message, partial(hide_message, hidden=True)):
        with pytest.raises(MessageChanged):
            change(session, 1, now=LATER, message_id="a1")
        with pytest.raises(InvalidMessageIndex):
            change(session, 0, now=LATER)
        with pytest.raises(InvalidMessageIndex):
            change(session, 8, now=LATER)
        assert change(session, 1, now=LATER, message_id="u1") != session


def test_what_tells_of_the_message_goes_and_is_made_again() -> None:
    state = ContextState(
        strategy="x", first_id="u1", last_id="a2", count=5, digest="d", created_at=NOW, summary="s"
    )
    session = with_metadata(
        with_tools(), now=NOW, summary={"summary": "They talked."}, context_state=state
    )
    for change in (delete_message, partial(hide_message, hidden=True)):
        for index, kept in ((0, None), (3, None), (5, state)):
            metadata = change(session, index, now=LATER).metadata
            assert (metadata.summary, metadata.summary_due) == (None, LATER)
            assert metadata.context_state == kept
            assert metadata.history_changed_at == LATER
        assert change(with_tools(), 0, now=LATER).metadata.summary_due is None


def test_a_title_of_the_first_words_goes_with_them_and_a_persons_stays() -> None:
    session = titled_by_message(with_tools())
    assert delete_message(session, 0, now=LATER).metadata.title == "two"
    assert delete_message(session, 5, now=LATER).metadata.title == "one"
    mine = with_metadata(session, now=NOW, title="Mine", titled_by="person")
    assert delete_message(mine, 0, now=LATER).metadata.title == "Mine"
    alone = with_messages(session, session.messages[:1], now=NOW)
    assert delete_message(alone, 0, now=LATER).metadata.title is None


def test_a_title_of_the_first_words_follows_an_edit() -> None:
    session = titled_by_message(with_tools())
    assert edit_user_message(session, 0, "three", now=LATER).metadata.title == "three"
    assert edit_user_message(session, 5, "three", now=LATER).metadata.title == "one"
    again = rewind(session, Rewind(message_id="u1", content="Once more."), now=LATER)
    assert (again.metadata.title, again.metadata.titled_by) == ("Once more.", "message")
    for titled_by in ("person", "model"):
        other = with_metadata(session, now=NOW, title="Mine", titled_by=titled_by)
        assert edit_user_message(other, 0, "three", now=LATER).metadata.title == "Mine"


def test_no_summary_tells_of_what_an_edit_removed() -> None:
    state = ContextState(
        strategy="x", first_id="u1", last_id="a2", count=5, digest="d", created_at=NOW, summary="s"
    )
    session = with_metadata(with_tools(), now=NOW, context_state=state)
    assert edit_user_message(session, 0, "three", now=LATER).metadata.context_state is None
    assert edit_user_message(session, 5, "three", now=LATER).metadata.context_state == state


def test_a_variant_that_was_hidden_is_shown_once_it_is_the_answer_again() -> None:
    session = hide_message(with_tools(), 6, hidden=True, now=LATER)
    new = AssistantMessage(content="new", message_id="a4", timestamp=LATER)
    session = extend_answer(session, new, now=LATER, replaced_id="a3")
    assert hidden_in(session) == []
    assert hidden_in(choose_variant(session, 6, "a3", now=LATER)) == []


@pytest.mark.parametrize("foreign", ["yes", 1, [True]])
def test_files_keep_what_is_hidden_and_what_others_call_so(foreign: object) -> None:
    session = hide_message(with_tools(), 0, hidden=True, now=LATER)
    assert decode(encode(session), session.session_id) == session
    document = json.loads(encode(with_tools()))
    document["messages"][0]["hidden"] = foreign
    theirs = decode(json.dumps(document).encode(), session.session_id)
    assert hidden_in(theirs) == []
    assert json.loads(encode(theirs)) == document
    assert hidden_in(hide_message(theirs, 0, hidden=True, now=LATER)) == ["u1"]
    ours = json.loads(encode(hide_message(theirs, 0, hidden=True, now=LATER)))
    assert ours["messages"][0]["hidden"] is True
