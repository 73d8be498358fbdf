"""Conversations of the official client are sessions."""

import openai as package
import pytest

HELLO = {"type": "message", "role": "user", "content": "Hello!"}


def test_a_conversation_is_made_read_changed_and_deleted(openai):
    made = openai.conversations.create(items=[HELLO], metadata={"topic": "weather"})
    found = openai.conversations.retrieve(made.id)
    assert (found.id, found.object, found.metadata) == (
        made.id,
        "conversation",
        {"topic": "weather"},
    )
    assert found.created_at == made.created_at
    changed = openai.conversations.update(made.id, metadata={"topic": "rain"})
    assert changed.metadata == {"topic": "rain"}
    deleted = openai.conversations.delete(made.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (
        made.id,
        True,
        "conversation.deleted",
    )
    with pytest.raises(package.NotFoundError, match="not found"):
        openai.conversations.retrieve(made.id)


def test_items_are_added_listed_read_and_deleted(openai, chat):
    made = openai.conversations.create()
    added = openai.conversations.items.create(
        made.id,
        items=[
            HELLO,
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "3"},
            {"role": "assistant", "content": "It is 3."},
        ],
    )
    names = [item.id for item in added.data]
    assert [item.type for item in added.data] == [
        *("message", "function_call"),
        *("function_call_output", "message"),
    ]
    listed = openai.conversations.items.list(made.id, order="asc", limit=3)
    assert [item.id for item in listed.data] == names[:3]
    assert listed.has_more
    assert [item.id for item in listed] == names, "page after page"
    newest = openai.conversations.items.list(made.id)
    assert [item.id for item in newest.data] == names[::-1]
    one = openai.conversations.items.retrieve(names[3], conversation_id=made.id)
    assert one.content[0].text == "It is 3."
    openai.conversations.items.delete(names[1], conversation_id=made.id)
    left = openai.conversations.items.list(made.id, order="asc")
    assert [item.id for item in left.data] == [names[0], names[3]]
    roles = [message["role"] for message in chat.messages(made.id.removeprefix("conv_"))]
    assert roles == ["user", "assistant"]


def test_what_does_not_exist_or_makes_no_sense_is_refused(openai, chat):
    before = chat.http.get("/sessions").json()["total"]
    with pytest.raises(package.BadRequestError) as refusal:
        openai.conversations.create(items=[HELLO] * 21)
    assert refusal.value.param == "items"
    with pytest.raises(package.BadRequestError) as refusal:
        openai.conversations.create(items=[{**HELLO, "role": "robot"}])
    assert refusal.value.param == "items[0].role"
    with pytest.raises(package.BadRequestError) as refusal:
        openai.conversations.create(metadata={"topic": "x" * 513})
    assert refusal.value.param == "metadata.topic"
    for name in ("conv_0000000000", "conv_x", "resp_0000000000", "..%2f"):
        with pytest.raises(package.NotFoundError):
            openai.conversations.retrieve(name)
        with pytest.raises(package.NotFoundError):
            openai.conversations.items.list(name)
    made = openai.conversations.create()
    with pytest.raises(package.NotFoundError):
        openai.conversations.items.retrieve("msg_68ab", conversation_id=made.id)
    with pytest.raises(package.BadRequestError):
        openai.conversations.items.list(made.id, limit=0)
    with pytest.raises(package.NotFoundError) as refusal:
        openai.conversations.items.list(made.id, after="msg_68ab")
    assert refusal.value.param == "after"
    assert chat.http.get("/sessions").json()["total"] == before + 1
