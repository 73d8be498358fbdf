"""Claude's export: blocks of an answer, texts that were attached, answers that were replaced."""

import pytest

from tests.unit.transfer_app.formats.exports import entries_of, said
from transfer_app.formats.claude import parse
from transfer_app.formats.conversation import GivenFile, UnusableEntry

TEA, HELLO = entries_of("claude")


def test_thoughts_calls_and_results_are_taken() -> None:
    found = parse(TEA)
    (branch,) = found.branches
    assert said(branch) == [
        ("user", "What does my note say?"),
        ("assistant", ""),
        ("tool", "80 degrees"),
        ("assistant", "It is about green tea."),
    ]
    _, call, result, _ = branch.messages
    assert call.thinking == "The note is short."
    assert call.tool_calls[0].arguments == {"query": "green tea"}
    assert result.tool_call_id == call.tool_calls[0].id == "toolu_1"
    assert (found.title, found.model) == ("Notes on tea", "")
    assert found.created_at == "2026-03-01T08:00:00.123456+00:00"


def test_the_text_of_a_file_is_taken_and_other_files_by_their_names() -> None:
    question = parse(TEA).branches[0].messages[0]
    assert question.files == (
        GivenFile(name="note.txt", data=b"Green tea at 80 C"),
        GivenFile(name="photo.jpg", pointer="photo.jpg"),
    )


def test_the_last_answer_is_shown_and_the_replaced_one_is_a_branch() -> None:
    shown, other = parse(HELLO, all_branches=True).branches
    assert said(shown) == [("user", "Hi"), ("assistant", "Good day.")]
    assert said(other) == [("user", "Hi"), ("assistant", "Hello.")]
    assert other.shared == 1


def test_an_entry_that_is_broken_is_refused() -> None:
    with pytest.raises(UnusableEntry, match="chat_messages"):
        parse({"uuid": "1", "chat_messages": None})
    with pytest.raises(UnusableEntry, match="uuid"):
        parse({"chat_messages": []})


def test_messages_of_which_some_name_a_parent_or_share_an_id_are_all_kept() -> None:
    listed = [
        {"uuid": "1", "sender": "human", "text": "Tree?", "parent_message_uuid": None},
        {"uuid": "2", "sender": "assistant", "text": "Elm."},
        {"uuid": "2", "sender": "human", "content": "Bird?"},
        {"uuid": "3", "sender": "assistant", "content": [{"type": "text", "text": "Owl."}]},
    ]
    (branch,) = parse({"uuid": "c", "chat_messages": listed}).branches
    assert [text for _, text in said(branch)] == ["Tree?", "Elm.", "Bird?", "Owl."]
