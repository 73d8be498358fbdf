"""LibreChat's export: messages in each other or side by side, the newest is shown."""

from typing import Any

import pytest

from tests.unit.transfer_app.formats.exports import entries_of, said
from transfer_app.formats.conversation import GivenFile, UnusableEntry
from transfer_app.formats.librechat import parse

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


def message(key: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"messageId": key, "text": text, "isCreatedByUser": text.endswith("?"), **fields}


def test_messages_without_a_time_are_not_cut_off() -> None:
    listed = [
        message("1", "Tree?", parentMessageId=None, createdAt="2026-01-01T00:00:00Z"),
        message("2", "Elm.", parentMessageId="1", createdAt="2026-01-01T00:00:05Z"),
        message("3", "Bird?", parentMessageId="2"),
        message("4", "Owl.", parentMessageId="3"),
    ]
    for order in (listed, listed[::-1]):
        (branch,) = parse({"conversationId": "1", "messages": order}).branches
        assert [text for _, text in said(branch)] == ["Tree?", "Elm.", "Bird?", "Owl."]


def test_messages_that_name_no_parent_follow_each_other() -> None:
    listed = [message("1", "Tree?"), message("2", "Elm."), message("3", "Bird?")]
    (branch,) = parse({"conversationId": "1", "messages": listed}).branches
    assert [text for _, text in said(branch)] == ["Tree?", "Elm.", "Bird?"]


def test_two_messages_with_one_id_are_both_kept() -> None:
    listed = [message("1", "Tree?"), message("1", "Elm."), message("1", "Elm.")]
    (branch,) = parse({"conversationId": "1", "messages": listed}).branches
    assert [text for _, text in said(branch)] == ["Tree?", "Elm.", "Elm."]


def test_messages_in_a_circle_have_a_newest_one() -> None:
    listed = [message("1", "A?", parentMessageId="2"), message("2", "B.", parentMessageId="1")]
    (branch,) = parse({"conversationId": "1", "messages": listed}).branches
    assert len(branch.messages) == 2
