"""When a conversation is summarized, by which model, and from what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chat.summaries.prompt import (
    LARGEST_TRANSCRIPT,
    ConversationSummary,
    question_for,
    transcript,
    wants_summary,
    with_summary_due,
)
from sessions_app.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sessions_app.session import Session, SessionMetadata
from tests.unit.chat.context import pictures

UNSUPPORTED = frozenset({"gpt-oss:20b"})


def said(content="Hello"):
    return UserMessage(content=content, message_id="u", timestamp="t")


def answer(content="Hi", **how):
    return AssistantMessage(content=content, message_id="a", timestamp="t", model="m", **how)


def session(*messages, **metadata):
    metadata = {"model": "m", "created_at": "t", "updated_at": "t", **metadata}
    return Session(metadata=SessionMetadata(session_id="0123456789", **metadata), messages=messages)


def test_a_summary_is_wanted_after_a_finished_answer():
    call = ToolCall(id="c", name="add", arguments={})
    assert wants_summary([said(), answer()])
    assert not wants_summary([])
    assert not wants_summary([answer()])
    assert not wants_summary([said(), answer(), said()])
    for how in ({"tool_calls": (call,)}, {"cancelled": True}, {"interrupted": True}):
        assert not wants_summary([said(), answer(**how)])


def test_what_is_due_is_noted_without_touching_when_the_session_was_used():
    due = with_summary_due(session(said(), answer()), now="now")
    assert (due.metadata.summary_due, due.metadata.updated_at) == ("now", "t")
    waiting = session(said())
    assert with_summary_due(waiting, now="now") is waiting


def test_the_question_has_the_summary_so_far_and_the_conversation():
    call = ToolCall(id="c", name="add", arguments={"a": 1})
    result = ToolMessage(content="3", message_id="r", timestamp="t", tool_name="add")
    talk = session(
        SystemMessage(content="Secret prompt.", message_id="s", timestamp="t"),
        said("What is 1 + 2?"),
        answer("Let me see.", tool_calls=(call,)),
        result,
        answer("It is 3.\n\n[cancelled]", cancelled=True),
        summary={"summary": "They did sums.", "topics": []},
    )

    question = question_for(talk, 8192)

    assert question.text == (
        "Summary so far:\nThey did sums.\n\nConversation:\n"
        "User: What is 1 + 2?\n"
        "Assistant: Let me see. (uses add)\n"
        "Result of add: 3\n"
        "Assistant: It is 3."
    )


@given(
    texts=st.lists(st.text(max_size=9000), max_size=12),
    window=st.none() | st.integers(100, 10**6),
)
def test_what_is_asked_fits_the_window(texts, window):
    talk = session(*map(said, texts))

    text = question_for(talk, window).text

    assert len(text) <= 4 * min((window or 4096) * 0.6, LARGEST_TRANSCRIPT) + 40


def test_the_model_stays_loaded_as_long_as_the_session_says():
    talk = session(said(), answer(), options={"keep_alive": "1h", "seed": 1})
    assert question_for(talk, 8192).keep_alive == "1h"
    assert question_for(session(said(), answer()), 8192).keep_alive is None


def test_a_transcript_keeps_the_end():
    lines = transcript([said("first " * 20), said("second"), answer("third")], 40).splitlines()
    assert lines == ["(Not shown: 1 earlier message.)", "User: second", "Assistant: third"]
    assert len(transcript([said("x" * 3000)], 100)) <= 100


def test_a_summary_is_short_and_its_topics_are_names():
    made = ConversationSummary(summary=" A talk. ", topics=[" a ", "", "a", *map(str, range(20))])
    assert made.summary == "A talk."
    assert made.topics[:2] == ["a", "0"]
    assert len(made.topics) == 10
    for summary in ("", "  \n"):
        with pytest.raises(ValidationError):
            ConversationSummary(summary=summary, topics=[])


def test_images_and_files_are_named():
    messages = [
        pictures.asked(1, pictures.image("cat.png"), pictures.text(), content="Look."),
        pictures.asked(2, pictures.image("dog.png"), content=""),
        pictures.result(3, pictures.pdf()),
    ]

    assert transcript(messages, 1000) == (
        "User: Look. [image cat.png] [file notes.txt]\n"
        "User: [image dog.png]\n"
        "Result of look: See for yourself. [file report.pdf]"
    )


def test_hidden_messages_are_in_no_summary():
    secret = UserMessage(content="my password", message_id="u", timestamp="t", hidden=True)
    asked = question_for(session(secret, answer("Noted."), said(), answer("Sure.")), 8192).text
    assert "password" not in asked
    assert "User: Hello" in asked
    assert "password" not in transcript([secret, said("x" * 50), answer()], 20)
    assert "1 earlier message." in transcript([secret, said("x" * 50), answer()], 20)
    assert not wants_summary([secret, answer()])
