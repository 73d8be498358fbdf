"""Saved messages as items, which read as input give the messages again."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dialects_app.responses.items import parse_input
from dialects_app.responses.saved_items import items_of
from dialects_app.shared.files import StoredSource
from sessions_app.ids_and_clock import new_message_id
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tests.unit.dialects_app.responses.parsed_messages import SESSION, ids, said

texts = st.text(min_size=1, max_size=10).filter(str.strip)
arguments = st.dictionaries(
    st.text(max_size=3), st.integers(-9, 9) | st.text(max_size=3), max_size=2
)


@st.composite
def rounds(draw: st.DrawFn) -> list[Message]:
    """An answer: reasoning, text, calls of ours and of the client with their results."""
    names = draw(st.lists(st.booleans(), max_size=3))
    asked = [
        ToolCall(
            id=f"call_{new_message_id()}",
            name=draw(texts),
            arguments=draw(arguments),
            client_side=mine,
        )
        for mine in sorted(names)  # ours first, as their results are saved first
    ]
    # Without a text, a round can't be told from the one before.
    text = draw(texts)
    answer = AssistantMessage(
        content=text, thinking=draw(st.none() | texts), tool_calls=tuple(asked), **ids()
    )
    return [answer, *(draw(results(call)) for call in asked)]


@st.composite
def results(draw: st.DrawFn, call: ToolCall) -> Message:
    failed = not call.client_side and draw(st.booleans())
    content = draw(texts)
    return ToolMessage(
        content=f"Error: {content}" if failed else content,
        failed=failed,
        tool_name=call.name,
        tool_call_id=call.id,
        **ids(),
    )


others = st.builds(lambda text: [UserMessage(content=text, **ids())], texts) | st.builds(
    lambda text: [SystemMessage(content=text, **ids())], texts
)


histories = st.lists(rounds() | others, max_size=6).map(
    lambda parts: [message for part in parts for message in part]
)


CAT = Attachment(id="sha256:ab", name="cat.png", media_type="image/png", size=1, width=2, height=1)
NOTE = Attachment(id="sha256:cd", name="note.txt", media_type="text/plain", size=1)
CALL = ToolCall(id="c1", name="f", arguments={}, client_side=True)


def test_images_and_files_are_shown_as_parts_and_can_be_sent_back() -> None:
    messages = [
        UserMessage(content="What?", attachments=(CAT, NOTE), **ids()),
        AssistantMessage(content="", tool_calls=(CALL,), **ids()),
        ToolMessage(content="", attachments=(CAT,), tool_name="f", tool_call_id="c1", **ids()),
        UserMessage(content="", attachments=(NOTE,), **ids()),
    ]
    items = json.loads(msgspec.json.encode(items_of(messages, SESSION)))
    text, image, file = items[0]["content"]
    assert text == {"type": "input_text", "text": "What?"}
    assert (image["type"], image["file_id"]) == ("input_image", CAT.id)
    assert file == {"type": "input_file", "file_id": NOTE.id, "filename": "note.txt"}
    assert items[2]["output"] == [image]
    assert items[3]["content"] == [file]
    parsed = parse_input(items)
    assert said(parsed.messages) == said(messages)
    sent = [(file.source, file.name, file.is_image) for file in parsed.files]
    cat, note = (StoredSource(CAT.id), CAT.name, True), (StoredSource(NOTE.id), NOTE.name, False)
    assert sent == [cat, note, cat, note]


@given(histories)
def test_what_we_emitted_gives_the_messages_it_was_made_from(messages: list[Message]) -> None:
    items = json.loads(msgspec.json.encode(items_of(messages, SESSION)))
    assert said(parse_input(items).messages) == said(messages)
    assert len({item["id"] for item in items}) == len(items)


@given(histories)
def test_references_to_what_we_emitted_give_the_same(messages: list[Message]) -> None:
    saved = {item["id"]: item for item in items_of(messages, SESSION)}
    references = [{"type": "item_reference", "id": name} for name in saved]
    assert said(parse_input(references, find=saved.get).messages) == said(messages)


def test_the_phase_of_a_message_is_kept_and_none_is_made_up() -> None:
    told: list[Any] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "I look.", "phase": "commentary"},
        {"role": "assistant", "content": "It is there.", "phase": "final_answer"},
        {"role": "assistant", "content": "Yes."},
        {"role": "assistant", "content": "No.", "phase": ["x"]},
    ]
    items = items_of(parse_input(told).messages, SESSION)
    phases = [item.get("phase") for item in items]
    assert phases == [None, "commentary", "final_answer", None, None]
    assert [said.get("phase") for said in items_of(parse_input(items).messages, SESSION)] == phases
