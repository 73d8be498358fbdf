"""Variants: what an answer replaced, how it is kept, and how it becomes the answer again."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.edits import delete_message, places_meant
from sessions_app.errors import InvalidMessageIndex, VariantNotFound
from sessions_app.format.codec import decode, encode
from sessions_app.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from sessions_app.session import (
    Session,
    SessionMetadata,
    append_messages,
    fork,
    with_messages,
)
from sessions_app.variants import (
    answer_start,
    choose_variant,
    extend_answer,
    find_answer,
    prefer_whole,
    turn_start,
    variants_of,
    without_replaced,
)

SESSION_ID = "a1b2c3d4e5"
NOW = "2026-11-21T12:00:00.000000+00:00"

MakeSession = Callable[..., Session]


def answer(text: str, minute: int = 0, **how: Any) -> AssistantMessage:
    timestamp = f"2026-11-21T11:{minute:02}:00.000000+00:00"
    return AssistantMessage(content=text, message_id=text, timestamp=timestamp, **how)


def with_tools(text: str, minute: int) -> tuple[Message, ...]:
    call = ToolCall(id=f"call-{text}", name="add", arguments={})
    asked = answer(f"{text}?", minute, tool_calls=(call,))
    result = ToolMessage(
        content="3", message_id=f"{text}=", timestamp=asked.timestamp, tool_call_id=call.id
    )
    return asked, result, answer(text, minute)


def again(session: Session, *messages: Message) -> Session:
    """Make the last answer again, as a turn does: message by message, then the end."""
    replaced_id = session.messages[1].message_id
    for message in messages:
        session = extend_answer(session, message, now=NOW, replaced_id=replaced_id)
    return prefer_whole(session, now=NOW)


def texts(session: Session) -> tuple[list[str], list[list[str]]]:
    holder = next(m for m in session.messages if isinstance(m, AssistantMessage))
    variants = [[message.content for message in variant] for variant in holder.variants]
    return [message.content for message in session.messages], variants


@pytest.fixture
def talk(make_session: MakeSession) -> Session:
    """Return a session with a question, and an answer that replaced two others."""
    session = append_messages(make_session("Q"), answer("A"), now=NOW)
    return again(again(session, *with_tools("B", 1)), answer("C", 2))


def test_what_is_replaced_stays_message_by_message_newest_first(talk: Session) -> None:
    assert texts(talk) == (["Q", "C"], [["B?", "3", "B"], ["A"]])
    assert not any(m.variants for m in talk.messages[1].variants[0] if hasattr(m, "variants"))
    assert decode(encode(talk), SESSION_ID) == talk


def test_switching_back_and_forth_loses_nothing(talk: Session) -> None:
    older = choose_variant(talk, 1, "A", now=NOW)
    assert texts(older) == (["Q", "A"], [["C"], ["B?", "3", "B"]])
    tools = choose_variant(older, 1, "B", now=NOW)  # any of its messages names it
    assert tools == choose_variant(older, 1, "B?", now=NOW)
    assert texts(tools) == (["Q", "B?", "3", "B"], [["C"], ["A"]])
    assert tools.metadata.message_count == 4
    back = choose_variant(tools, 1, "C", now=NOW)
    assert back.messages == talk.messages


def test_choosing_the_answer_itself_changes_nothing(talk: Session) -> None:
    assert choose_variant(talk, 1, "C", now=NOW) is talk


@pytest.mark.parametrize("index", [-1, 0, 2])
def test_only_the_beginning_of_the_last_answer_has_variants(talk: Session, index: int) -> None:
    with pytest.raises(InvalidMessageIndex):
        choose_variant(talk, index, "A", now=NOW)


def test_an_answer_that_was_replied_to_stays(talk: Session) -> None:
    reply = UserMessage(content="R", message_id="R", timestamp=NOW)
    replied = append_messages(talk, reply, now=NOW)
    with pytest.raises(InvalidMessageIndex, match="there is none"):
        choose_variant(replied, 1, "A", now=NOW)
    with pytest.raises(InvalidMessageIndex, match="begins at 3"):
        choose_variant(append_messages(replied, answer("D"), now=NOW), 1, "A", now=NOW)
    copy = fork(replied, session_id="0" * 10, now=NOW, message_index=1)
    assert texts(choose_variant(copy, 1, "A", now=NOW))[0] == ["Q", "A"]


@pytest.fixture
def joined(talk: Session) -> Session:
    """Return the session after a second question was deleted: two answers, both with variants."""
    question = UserMessage(content="R", message_id="R", timestamp=NOW)
    asked = append_messages(talk, question, answer("D", 3), now=NOW)
    asked = extend_answer(asked, answer("E", 4), now=NOW, replaced_id="D")
    return delete_message(asked, 2, now=NOW)


def test_answers_that_became_one_keep_the_variants_of_both(joined: Session) -> None:
    held = [m.variants for m in joined.messages if isinstance(m, AssistantMessage)]
    assert [len(variants) for variants in held] == [2, 1]
    new = again(joined, answer("F", 5))
    assert texts(new) == (["Q", "F"], [["D"], ["C", "E"], ["B?", "3", "B"], ["A"]])
    assert texts(choose_variant(new, 1, "E", now=NOW))[0] == ["Q", "C", "E"]
    broken = again(new, answer("Half", 6, interrupted=True))
    assert texts(broken) == (["Q", "F"], [["Half"], *texts(new)[1]])


@pytest.mark.parametrize(("index", "chosen"), [(1, "A"), (1, "D"), (2, "D"), (2, "A")])
def test_each_variant_of_answers_that_became_one_can_be_chosen(
    joined: Session, index: int, chosen: str
) -> None:
    variants = [["D"], ["C", "E"], ["B?", "3", "B"], ["A"]]
    others = [variant for variant in variants if variant != [chosen]]
    assert texts(choose_variant(joined, index, chosen, now=NOW)) == (["Q", chosen], others)


def test_what_is_a_variant_in_answers_that_became_one_is_not_added_again(joined: Session) -> None:
    for known in (answer("A"), answer("D", 3)):
        assert extend_answer(joined, known, now=NOW, replaced_id="C") is joined
        assert find_answer(joined, known.message_id) is not None


def ids_in(session: Session) -> set[str]:
    """Return the ids of the messages of a session and of their variants."""
    ids = {message.message_id for message in session.messages}
    for message in session.messages:
        if isinstance(message, AssistantMessage):
            ids.update(each.message_id for variant in message.variants for each in variant)
    return ids


def said(session: Session, step: int) -> Session:
    question = UserMessage(content="?", message_id=f"Q{step}", timestamp=NOW)
    return append_messages(session, question, answer(f"A{step}", step), now=NOW)


def answered_again(session: Session, *messages: Message) -> Session:
    last = session.messages[answer_start(session.messages) :]
    replaced_id = last[0].message_id if last else None
    for message in messages:
        session = extend_answer(session, message, now=NOW, replaced_id=replaced_id)
    return prefer_whole(session, now=NOW)


@settings(max_examples=100)
@given(st.data())
def test_no_variant_is_lost_but_with_the_message_that_has_it(data: st.DataObject) -> None:
    empty = SessionMetadata(session_id=SESSION_ID, model="m", created_at=NOW, updated_at=NOW)
    session = Session(metadata=empty)
    for step in (1, 3):  # a question that can be deleted between two answers with variants
        session = answered_again(said(session, step), answer(f"A{step + 1}", step + 1))
    expected = ids_in(session)
    for step in range(10, 10 + data.draw(st.integers(1, 8))):
        index = data.draw(st.integers(0, max(len(session.messages) - 1, 0)))
        match data.draw(st.sampled_from(("delete", "again", "call", "break off", "choose", "say"))):
            case "say":
                session = said(session, step)
                expected |= {f"Q{step}", f"A{step}"}
            case "delete" if session.messages:
                places = places_meant(session, index)
                gone = session.messages[places.start : places.stop]
                expected -= ids_in(with_messages(session, gone, now=NOW))
                session = delete_message(session, index, now=NOW)
            case "choose" if session.messages:
                message = session.messages[index]
                if index >= answer_start(session.messages) and variants_of([message]):
                    chosen = data.draw(st.sampled_from(variants_of([message])))
                    session = choose_variant(session, index, chosen[-1].message_id, now=NOW)
            case "again" | "call" | "break off" as how if session.messages:
                made: Sequence[Message] = [answer(f"A{step}", step, interrupted=how != "again")]
                made = with_tools(f"A{step}", step) if how == "call" else made
                session = answered_again(session, *made)
                expected |= {message.message_id for message in made}
        assert ids_in(session) == expected


def test_a_variant_that_is_not_there_is_told(talk: Session) -> None:
    for message_id in ("3", "nope", "Q", ""):
        with pytest.raises(VariantNotFound):
            choose_variant(talk, 1, message_id, now=NOW)


def test_a_person_may_choose_what_was_broken_off(talk: Session) -> None:
    broken = again(talk, answer("Half", 3, interrupted=True))
    assert texts(broken) == (["Q", "C"], [["Half"], ["B?", "3", "B"], ["A"]])
    chosen = choose_variant(broken, 1, "Half", now=NOW)
    assert texts(chosen) == (["Q", "Half"], [["C"], ["B?", "3", "B"], ["A"]])
    assert texts(again(chosen, answer("Ha", 4, cancelled=True)))[0] == ["Q", "C"]


def test_what_is_there_is_not_added_again_wherever_it_is(talk: Session) -> None:
    for known in (answer("C", 2), answer("A")):
        assert extend_answer(talk, known, now=NOW, replaced_id="C") is talk
    assert find_answer(talk, "A") is talk.messages[1].variants[1][0]
    assert find_answer(talk, "3") is None


def test_a_turn_sees_the_history_without_what_it_replaces(talk: Session) -> None:
    assert texts_of(without_replaced(talk, "C")) == ["Q"]
    assert without_replaced(talk, None) is talk
    assert without_replaced(talk, "A") is talk
    replaced = extend_answer(talk, answer("D", 3), now=NOW, replaced_id="C")
    assert without_replaced(replaced, "C") is replaced


def texts_of(session: Session) -> list[str]:
    return [message.content for message in session.messages]


# --- In the file ------------------------------------------------------------------------------


def file(message: dict[str, Any]) -> bytes:
    metadata = {"model": "m", "created_at": NOW, "format_version": "1.3"}
    said = {"role": "user", "content": "?"}
    return json.dumps({"metadata": metadata, "messages": [said, message]}).encode()


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


FOREIGN = ["x", {"a": 1}, [1], [[]], [[{"role": "user", "content": "x"}]], [[{}]], nested(400)]


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda value: str(value)[:20])
def test_what_others_keep_under_our_key_survives(foreign: Any) -> None:
    message = {"role": "assistant", "content": "!", "message_id": "a", "variants": foreign}
    session = decode(file(message), SESSION_ID)
    assert session.messages[1].extra["variants"] == foreign
    written = json.loads(encode(session))["messages"][1]
    assert written["variants"] == foreign
    broken = again(session, answer("Half", 1, interrupted=True))
    written = json.loads(encode(broken))["messages"][1]
    assert written["unread_variants"] == foreign
    assert written["variants"][0][0]["content"] == "Half"


def test_variants_as_others_write_them_are_read() -> None:
    variant = [{"role": "assistant", "content": "Old", "x": 2}]
    session = decode(
        file({"role": "assistant", "content": "!", "x": 1, "variants": [variant]}), SESSION_ID
    )
    old = session.messages[1].variants[0][0]
    assert (old.content, old.extra) == ("Old", {"x": 2})
    assert old.message_id not in {message.message_id for message in session.messages}
    assert decode(encode(session), SESSION_ID).messages == session.messages


def said_in(turn_id: str, kind: type[Message], **how: Any) -> Message:
    return kind(content="x", message_id="m", timestamp=NOW, turn_id=turn_id, **how)


def test_a_turn_begins_before_what_was_said_while_it_ran() -> None:
    asked = said_in("t2", UserMessage)
    asking = said_in("t2", AssistantMessage)
    result = said_in("t2", ToolMessage, tool_name="t")
    before = [said_in("t1", UserMessage), said_in("t1", AssistantMessage), asked]
    assert turn_start([*before, asking, result]) == 3
    assert turn_start([*before, asking, result, asked]) == 3
    assert turn_start([*before, asking, result, asked, asked, asking, result, asked]) == 3
    assert turn_start([*before, asking, result, said_in("t3", UserMessage)]) == 6
    assert turn_start([asking]) == 0
    nowhere = [said_in("", UserMessage), said_in("", ToolMessage, tool_name="t")]
    assert turn_start([*nowhere, said_in("", UserMessage)]) == 3
