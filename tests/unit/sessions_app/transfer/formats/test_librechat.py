"""LibreChat's export: messages in each other or side by side, the newest is shown."""

from typing import Any

import pytest

from sessions_app.transfer.formats.conversation import GivenFile, UnusableEntry
from sessions_app.transfer.formats.librechat import parse
from tests.unit.sessions_app.transfer.formats.exports import entries_of, said

(TREES,) = entries_of("librechat")


def test_the_newest_answer_is_shown_and_errors_are_left_out() -> None:
    found = parse(TREES)
    (branch,) = found.branches
    assert said(branch) == [
        ("user", "Name a tree."),
        ("assistant", ""),
        ("tool", "elm"),
        ("assistant", "Elm."),
    ]
    question, call, result, answer = branch.messages
    assert question.files == (GivenFile(name="leaf.png", pointer="f-1"),)
    assert (call.thinking, call.model) == ("Which one?", "gpt-4o")
    assert (result.tool_call_id, answer.interrupted) == ("call_t", True)
    assert (found.instructions, found.model) == ("You know trees.", "gpt-4o-mini")


def test_other_answers_are_branches() -> None:
    _, other = parse(TREES, all_branches=True).branches
    assert said(other) == [("user", "Name a tree."), ("assistant", "Oak.")]


def test_messages_that_lie_in_each_other_may_be_many() -> None:
    inner: dict[str, Any] = {"messageId": "10000", "text": "end", "isCreatedByUser": True}
    for number in reversed(range(10_000)):
        message = {"messageId": str(number), "text": "x", "isCreatedByUser": True}
        inner = {**message, "children": [inner]}
    found = parse({"conversationId": "1", "messagesTree": [inner]})
    assert len(found.branches[0].messages) == 10_001


def test_an_entry_that_is_broken_is_refused() -> None:
    with pytest.raises(UnusableEntry, match="list of messages"):
        parse({"conversationId": "1", "messages": "none"})
    with pytest.raises(UnusableEntry, match="conversationId"):
        parse({"conversationId": 5, "messages": [{}]})
