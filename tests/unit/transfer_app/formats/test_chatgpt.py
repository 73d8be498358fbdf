"""ChatGPT's export: the way from the current node to the root, whatever the tree looks like."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.transfer_app.formats.exports import entries_of, said
from transfer_app.formats.chatgpt import parse, recognises
from transfer_app.formats.conversation import GivenFile, UnusableEntry

WHOLE, BROKEN = entries_of("chatgpt")


def test_the_branch_that_is_shown_is_taken_without_hidden_nodes() -> None:
    found = parse(WHOLE)
    (branch,) = found.branches
    assert said(branch) == [
        ("user", "What is this, and how many days are in 3 years?"),
        ("assistant", ""),
        ("tool", "1095"),
        ("assistant", "A cat, and 1095 days."),
        ("user", "Thank you. ü"),
    ]
    question, call, result, answer, _ = branch.messages
    assert question.files == (GivenFile(name="cat.png", pointer="file-Cat1"),)
    assert question.timestamp == "2025-11-22T08:26:41.000000+00:00"
    assert call.thinking == "Counting\nThree times 365."
    assert [(each.name, each.arguments) for each in call.tool_calls] == [
        ("python", {"input": "3 * 365"})
    ]
    assert (result.tool_name, result.tool_call_id) == ("python", call.tool_calls[0].id)
    assert (answer.model, answer.interrupted) == ("gpt-5-1", False)


def test_what_is_known_of_the_conversation_is_taken_over() -> None:
    found = parse(WHOLE)
    assert (found.source, found.id) == ("chatgpt", "6920aaaa-0001-4000-8000-000000000001")
    assert (found.title, found.model) == ("Cats and numbers", "gpt-5-1")
    assert (found.created_at, found.updated_at) == (
        "2025-11-22T08:26:40.250000+00:00",
        "2025-11-22T08:28:20.500000+00:00",
    )
    assert found.instructions == "I keep three cats.\n\nAnswer in short."
    assert (found.archived, found.pinned) == (True, False)


def test_other_branches_are_taken_where_they_are_wanted() -> None:
    _, other = parse(WHOLE, all_branches=True).branches
    assert said(other)[-1] == ("assistant", "Another answer: 1096, maybe.")
    assert (other.leaf, other.shared) == ("b4", 1)
    assert other.messages[-1].interrupted


def test_an_entry_without_messages_is_refused() -> None:
    assert recognises(BROKEN)
    with pytest.raises(UnusableEntry, match="no mapping"):
        parse(BROKEN)
    with pytest.raises(UnusableEntry, match="no conversation_id"):
        parse({"mapping": {}})


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "lost"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=3,
)
CONTENTS = st.fixed_dictionaries(
    {
        "content_type": st.sampled_from(
            [
                *("text", "multimodal_text", "code", "execution_output", "thoughts", "odd"),
                *("reasoning_recap", "tether_quote", "user_editable_context", "system_error"),
            ]
        )
    },
    optional={
        "parts": st.lists(st.text(max_size=3) | JSON, max_size=2) | JSON,
        "text": st.text(max_size=3) | JSON,
        "thoughts": JSON,
        "content": JSON,
    },
)
MESSAGES = st.fixed_dictionaries(
    {
        "author": st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant", "tool", "system", "odd"])}
        )
        | JSON,
        "content": CONTENTS | JSON,
    },
    optional={
        "recipient": st.sampled_from(["all", "python"]) | JSON,
        "create_time": JSON,
        "metadata": JSON,
        "channel": JSON,
    },
)
NODES = st.fixed_dictionaries(
    {"message": MESSAGES | JSON, "parent": NAMES | JSON}, optional={"children": JSON}
)
TREES = st.dictionaries(NAMES, NODES | JSON, max_size=5)


@given(TREES, NAMES | JSON, st.booleans())
def test_no_tree_is_followed_for_ever_or_breaks_the_import(
    mapping: Any, current: Any, all_branches: bool
) -> None:
    entry = {"id": "1", "mapping": mapping, "current_node": current, "create_time": 1}
    found = parse(entry, all_branches=all_branches)
    for branch in found.branches:
        keys = [message.key for message in branch.messages]
        assert set(keys) <= set(mapping)
        assert branch.shared <= len(keys)


def test_a_conversation_of_ten_thousand_messages_is_followed_without_recursion() -> None:
    mapping = {
        str(number): {
            "parent": str(number - 1) if number else None,
            "message": {
                "author": {"role": "user"},
                "content": {"content_type": "text", "parts": ["x"]},
            },
        }
        for number in range(10_000)
    }
    found = parse({"id": "1", "mapping": mapping, "current_node": "9999"}, all_branches=True)
    assert [len(branch.messages) for branch in found.branches] == [10_000]


@pytest.mark.parametrize("default", [None, "auto"])
def test_the_model_is_that_of_the_last_answer_where_the_conversation_names_none(
    default: str | None,
) -> None:
    def node(key: str, parent: str | None, role: str, slug: str) -> dict[str, Any]:
        content = {"content_type": "text", "parts": [key]}
        message = {"author": {"role": role}, "content": content, "metadata": {"model_slug": slug}}
        return {"id": key, "parent": parent, "message": message}

    nodes = [node("q", None, "user", ""), node("a", "q", "assistant", "gpt-5-1")]
    entry = {"conversation_id": "c", "mapping": {each["id"]: each for each in nodes}}
    assert parse({**entry, "default_model_slug": default}).model == "gpt-5-1"
