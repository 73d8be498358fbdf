"""Open WebUI's export: items of answers, and the HTML that older ones have in their place."""

from typing import Any

import pytest

from tests.unit.transfer_app.formats.exports import entries_of, said
from transfer_app.formats import recognition
from transfer_app.formats.conversation import GivenFile, UnusableEntry
from transfer_app.formats.open_webui import parse

(CHAT,) = entries_of("open_webui")


def test_the_items_of_an_answer_are_taken_and_not_their_repetition() -> None:
    found = parse(CHAT)
    (branch,) = found.branches
    assert said(branch) == [
        ("user", "Weather in Graz?"),
        ("assistant", ""),
        ("tool", "rain"),
        ("assistant", "It rains."),
    ]
    question, call, result, _ = branch.messages
    assert question.files == [
        GivenFile(name="image", data=b"hello"),
        GivenFile(name="map.pdf", pointer="map.pdf"),
    ]
    assert call.thinking == "I should ask."
    assert call.tool_calls[0].arguments == {"city": "Graz"}
    assert (result.tool_name, result.tool_call_id) == ("weather", "call_1")
    assert (found.title, found.model, found.pinned, found.archived) == (
        *("Pinned weather", "qwen3:14b"),
        *(True, False),
    )


def test_branches_share_the_files_that_they_have_in_common() -> None:
    shown, other = parse(CHAT, all_branches=True).branches
    assert shown.messages[0].files[0].data is not None
    assert shown.messages[0].files[0].data is other.messages[0].files[0].data


def test_older_answers_have_thoughts_and_calls_in_their_text() -> None:
    _, other = parse(CHAT, all_branches=True).branches
    assert said(other)[1:] == [("assistant", ""), ("tool", "sunny"), ("assistant", "Sunny.")]
    call = other.messages[1]
    assert call.thinking == 'Ask the "tool".'
    assert call.tool_calls[0].arguments == {"city": "Graz"}


def test_blocks_without_an_end_are_text() -> None:
    content = '<details type="reasoning">' * 20_000
    messages = {"a": {"role": "assistant", "content": content}}
    found = parse({"id": "1", "chat": {"history": {"messages": messages}}})
    assert said(found.branches[0]) == [("assistant", content)]


@pytest.mark.timeout(30)  # took the square of the length: hours for this one
def test_megabytes_of_tags_without_an_end_are_read_once() -> None:
    content = '<details type="reasoning"' * 400_000
    messages = {"a": {"role": "assistant", "content": content}}
    found = parse({"id": "1", "chat": {"history": {"messages": messages}}})
    assert said(found.branches[0]) == [("assistant", content)]


def test_a_reference_to_a_character_with_an_endless_number_stays_as_it_is() -> None:
    name = f"&#{'9' * 5000};"
    content = f'<details type="tool_calls" name="{name}"></details>'
    messages = {"a": {"role": "assistant", "content": content}}
    found = parse({"id": "1", "chat": {"history": {"messages": messages}}})
    assert found.branches[0].messages[0].tool_calls[0].name == name


def test_an_entry_that_is_broken_is_refused() -> None:
    with pytest.raises(UnusableEntry, match=r"chat\.history\.messages"):
        parse({"id": "1", "chat": {"history": {}}})
    with pytest.raises(UnusableEntry, match="no id"):
        parse({"chat": {"history": {"messages": {}}}})


QUESTION = {
    "id": "q",
    "parentId": None,
    "role": "user",
    "content": [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ],
}
REPLY = {"id": "r", "parentId": "q", "role": "assistant", "content": "An elm."}


@pytest.mark.parametrize(
    "chat",
    [
        {"history": {"messages": {"q": QUESTION, "r": REPLY}, "currentId": "r"}, "messages": []},
        {"chat": {"messages": [QUESTION, REPLY]}},
        {"chat": {"messages": [QUESTION, {**REPLY, "parentId": "q"}], "title": "Trees"}},
    ],
    ids=["inside", "listed", "titled"],
)
def test_a_single_chat_is_read_with_content_lists(chat: dict[str, Any]) -> None:
    assert recognition.parse({**chat, "models": ["m"]}).source == "open_webui"  # type: ignore[union-attr]
    (branch,) = parse(chat).branches
    assert said(branch) == [("user", "What is it?"), ("assistant", "An elm.")]
    assert [file.data for file in branch.messages[0].files] == [b"hi"]
