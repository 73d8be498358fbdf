import json

import msgspec
import pytest
from httpx_sse._decoders import SSEDecoder
from hypothesis import given
from hypothesis import strategies as st

from chat.stream import sse
from chat.stream.events import EVENTS, ContentDelta, Failed, ThinkingContentDelta, ToolCallStarted

NASTY = st.text(st.characters(codec="utf-8") | st.sampled_from('\r\n\x00\x85\u2028\u2029😀\\"<'))


def parse(frames: str) -> list[tuple[str, str, str]]:
    """Read frames as WHATWG tells: lines end in CR, LF or CRLF only."""
    decoder = SSEDecoder()
    events = []
    for line in frames.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
        event = decoder.decode(line)
        if event is not None:
            events.append((event.id, event.event, event.data))
    return events


@given(NASTY)
def test_no_text_of_a_model_can_forge_an_event(text):
    data = sse.payload(ContentDelta(content=text))
    [(event_id, name, received)] = parse(sse.frame("abc", 7, "content_delta", data))
    assert (event_id, name) == ("abc:7", "content_delta")
    assert json.loads(received) == {"content": text, "role": "assistant"}


@given(NASTY, NASTY)
def test_tool_names_and_arguments_are_data_too(name, value):
    event = ToolCallStarted(
        tool_name=name, arguments={value: [value]}, call_index=0, tool_call_id=value
    )
    data = sse.payload(event)
    assert data.isascii()
    assert "\n" not in data
    assert "\r" not in data
    assert json.loads(data) == msgspec.to_builtins(event)


def test_the_written_out_payloads_equal_the_generic_ones():
    for event in (ContentDelta(content="hé\n"), ThinkingContentDelta(content='"x"')):
        assert json.loads(sse.payload(event)) == msgspec.to_builtins(event)


def test_error_details_reach_the_payload():
    event = Failed(code="OLLAMA_ERROR", message="ü", details={"retryable": True})
    assert json.loads(sse.payload(event))["details"] == {"retryable": True}


def test_every_event_has_a_name_of_its_own():
    names = [event.event for event in EVENTS]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalpha() for name in names)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0199f3:12", ("0199f3", 12)),
        ("0199f3:0", ("0199f3", 0)),
        ("12", None),
        (":12", None),
        ("abc:", None),
        ("abc:-1", None),
        ("abc:1e3", None),
        ("abc:١٢", None),
        ("../x:1", None),
        ("abc:9999999999999", None),
    ],
)
def test_event_ids_are_read_strictly(value, expected):
    assert sse.read_event_id(value) == expected
