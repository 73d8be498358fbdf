"""chatbot-ui's export: lists of messages, whose contents are their name."""

import pytest

from tests.unit.transfer_app.formats.exports import entries_of, said
from transfer_app.formats.chatbot_ui import parse
from transfer_app.formats.conversation import UnusableEntry

BREAD, EMPTY = entries_of("chatbot_ui")


def test_messages_model_and_prompt_are_taken() -> None:
    found = parse(BREAD)
    assert said(found.branches[0]) == [("user", "How long?"), ("assistant", "Forty minutes.")]
    assert (found.id, found.title, found.model) == ("cb-1", "Bread", "gpt-3.5-turbo")
    assert found.instructions == "You are a baker."
    assert parse(EMPTY).branches[0].messages == ()


def test_a_conversation_without_a_name_is_known_by_its_contents() -> None:
    nameless = {key: value for key, value in BREAD.items() if key != "id"}
    assert parse(nameless).id == parse(dict(nameless)).id
    assert parse(nameless).id != parse({**nameless, "messages": BREAD["messages"][:1]}).id


def test_an_entry_that_is_broken_is_refused() -> None:
    with pytest.raises(UnusableEntry, match="list of messages"):
        parse({"messages": None})


def test_a_question_that_is_a_list_of_parts_is_kept() -> None:
    parts = [{"type": "text", "text": "Tree?"}, "Or bird?"]
    (branch,) = parse({"name": "x", "messages": [{"role": "user", "content": parts}]}).branches
    assert said(branch) == [("user", "Tree?\n\nOr bird?")]
