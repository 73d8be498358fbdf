"""Files that hold no session, or one that is wrong somewhere."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.errors import SessionCorrupt, ValidationFailed
from sessions_app.format.codec import decode, decode_head, encode
from sessions_app.messages import (
    AssistantMessage,
    ToolCall,
)
from sessions_app.session import (
    append_messages,
)
from tests.unit.sessions_app.format.sessions import (
    ANY_JSON,
    MESSAGE_KEYS,
    METADATA_KEYS,
    NOW,
    SESSION_ID,
    objects,
)
from tests.unit.sessions_app.format.test_codec import MakeSession, document, read


@given(st.binary(max_size=200) | objects.map(lambda value: json.dumps(value).encode()))
def test_foreign_bytes_are_corrupt_and_nothing_else(data: bytes) -> None:
    with pytest.raises(SessionCorrupt):
        decode(data, SESSION_ID)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"\0" * 4096, "NUL"),
        (b'{"metadata": {', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"metadata": {"model": "\\ud800"}}', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"name": "someone else\'s"}', "metadata is missing"),
        (b'{"metadata": [], "messages": []}', "metadata is not an object"),
    ],
)
def test_a_file_that_is_no_session_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(SessionCorrupt) as raised:
        decode(data, SESSION_ID)
    assert reason in raised.value.reason


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"model": None}, "metadata.model is missing"),
        ({"model": 3}, "metadata.model is not text"),
        ({"created_at": None, "updated_at": None}, "metadata.created_at is missing"),
        ({"tool_settings": []}, "metadata.tool_settings is not an object"),
        ({"tool_settings": {"tools": [1]}}, "metadata.tool_settings.tools"),
        ({"tool_settings": {"tool_policies": {"a": 1}}}, "tool_policies"),
        ({"context_window_config": {"current_window": True}}, "current_window is not a number"),
        ({"context_window_config": {"adjustment_history": [1]}}, "adjustment_history"),
    ],
)
def test_a_wrong_type_in_the_metadata_is_named(change: dict[str, Any], place: str) -> None:
    with pytest.raises(SessionCorrupt) as raised:
        read(document(**change))
    assert place in raised.value.reason


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("Hello", "messages[0] is not an object"),
        ({"role": "oracle", "content": "?"}, "unknown role 'oracle'"),
        ({"role": ["user"], "content": "?"}, "unknown role"),
        ({"role": "user", "content": 1}, "messages[0].content is not text"),
        ({"role": "assistant", "tool_calls": {}}, "messages[0].tool_calls is not a list"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].name is missing"),
        ({"role": "assistant", "tool_calls": ["f"]}, "messages[0].tool_calls[0] is not an object"),
    ],
)
def test_a_wrong_message_is_named(message: object, place: str) -> None:
    with pytest.raises(SessionCorrupt) as raised:
        read({**document(), "messages": [message]})
    assert place in raised.value.reason


def test_half_a_character_is_written_as_its_replacement_wherever_it_is(
    make_session: MakeSession,
) -> None:
    call = ToolCall(
        id="\ud800", name="f\udc00", arguments={"k\ud800": ["\ud83d\ude00", {"\ud801": 2**70}]}
    )
    half = AssistantMessage(content="a\ud800", message_id="u", timestamp=NOW, tool_calls=(call,))
    session = append_messages(make_session("Hello"), half, now=NOW)

    saved = decode(encode(session), SESSION_ID).messages[-1]

    assert isinstance(saved, AssistantMessage)
    assert saved.content == "a\ufffd"
    assert saved.tool_calls[0].name == "f\ufffd"
    assert saved.tool_calls[0].arguments == {"k\ufffd": ["😀", {"\ufffd": 2**70}]}


def test_what_is_no_json_can_not_be_written(make_session: MakeSession) -> None:
    session = msgspec.structs.replace(make_session(), extra={"x": object()})
    with pytest.raises(ValidationFailed):
        encode(session)


@pytest.mark.parametrize("version", [{"a": 1}, ["1.3"], 1.3, True])
def test_a_version_that_is_no_text_makes_a_file_corrupt_not_the_server(version: Any) -> None:
    metadata = {"model": "m", "created_at": NOW, "preview": "", "format_version": version}
    data = json.dumps({"metadata": metadata, "messages": []}).encode()

    assert decode_head(data, SESSION_ID) is None
    with pytest.raises(SessionCorrupt):
        decode(data, SESSION_ID)


def test_half_a_surrogate_pair_in_the_head_is_left_to_the_strict_reader() -> None:
    metadata = {"model": "m", "created_at": NOW, "format_version": "1.3", "preview": "\ud800"}
    data = json.dumps({"metadata": metadata, "messages": []}).encode()

    assert decode_head(data, SESSION_ID) is None
    with pytest.raises(SessionCorrupt):
        decode(data, SESSION_ID)


@given(
    metadata=st.dictionaries(st.sampled_from(METADATA_KEYS), ANY_JSON),
    message=st.dictionaries(st.sampled_from(MESSAGE_KEYS), ANY_JSON),
    role=st.sampled_from(["user", "assistant", "tool", "system"]),
)
def test_whatever_a_file_holds_it_is_a_session_or_corrupt(
    metadata: dict[str, Any], message: dict[str, Any], role: str
) -> None:
    known = {"model": "m", "created_at": NOW, "format_version": "1.3", "preview": ""}
    document = {"metadata": {**known, **metadata}, "messages": [{"role": role, **message}]}
    data = json.dumps(document).encode()

    head = decode_head(data, SESSION_ID)
    try:
        encode(decode(data, SESSION_ID))
    except (SessionCorrupt, ValidationFailed):
        return
    assert head is None or head.session_id == SESSION_ID
