"""What was said, in the form of the conventions, within bounds."""

import json

from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from usage_app.traces.contents import (
    LONGEST_CONVERSATION,
    LONGEST_TEXT,
    answer,
    arguments_of,
    conversation,
    instructions_of,
    result_text,
)

WHEN = {"message_id": "m", "timestamp": "2026-11-23T00:00:00.000000Z"}


def user(text, **more):
    return UserMessage(content=text, **WHEN, **more)


def test_a_conversation_has_every_kind_of_part():
    image = Attachment(id="sha256:00", name="cat.png", media_type="image/png", size=3)
    call = ToolCall(id="c1", name="add", arguments={"a": 1})
    messages = [
        SystemMessage(content="Be brief.", **WHEN),
        user("Look!", attachments=(image,)),
        AssistantMessage(content="", thinking="Hm.", tool_calls=[call], **WHEN),
        ToolMessage(content="1", tool_name="add", tool_call_id="c1", **WHEN),
    ]

    assert json.loads(conversation(messages)) == [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "Look!"},
                {"type": "file", "mime_type": "image/png", "file_id": "sha256:00"},
            ],
        },
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "Hm."},
                {"type": "tool_call", "id": "c1", "name": "add", "arguments": '{"a":1}'},
            ],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": "1"}],
        },
    ]
    assert json.loads(instructions_of(messages)) == [{"type": "text", "content": "Be brief."}]


def test_an_answer_says_why_it_ended():
    (said,) = json.loads(answer(AssistantMessage(content="Hi", done_reason="length", **WHEN)))

    assert said["finish_reason"] == "length"
    assert said["parts"] == [{"type": "text", "content": "Hi"}]


def test_without_messages_there_is_nothing():
    assert conversation([]) is None
    assert instructions_of([user("Hi")]) is None


def test_long_texts_and_long_conversations_are_cut_at_their_beginning():
    long = "x" * (2 * LONGEST_TEXT)
    messages = [user(f"{number} {long}") for number in range(20)]

    said = conversation(messages)

    assert len(said) < 2 * LONGEST_CONVERSATION
    texts = [each["parts"][0]["content"] for each in json.loads(said)]
    assert 1 < len(texts) < 20
    assert texts[-1].startswith("19 ")
    assert len(result_text(long)) < LONGEST_TEXT + 10


def test_half_a_character_and_odd_values_are_written_all_the_same():
    assert json.loads(arguments_of({"a": "x\ud83d"})) == {"a": "x\ufffd"}
    assert json.loads(arguments_of({"a": object}))
