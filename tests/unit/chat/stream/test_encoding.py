import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from chat.stream.encoding import encode_event, text_literal
from chat.stream.events import EVENTS, ContentDelta, Failed, ThinkingContentDelta, ToolCallStarted
from chat.stream.numbered_event import NumberedEvent

NASTY = st.text(st.characters(codec="utf-8") | st.sampled_from('\r\n\x00\x85\u2028\u2029😀\\"<'))


@given(NASTY, NASTY)
def test_tool_names_and_arguments_are_data_too(name, value):
    event = ToolCallStarted(
        tool_name=name, arguments={value: [value]}, call_index=0, tool_call_id=value
    )
    data = encode_event(event)
    assert data.isascii()
    assert "\n" not in data
    assert "\r" not in data
    assert json.loads(data) == msgspec.to_builtins(event)


def test_the_written_out_payloads_equal_the_generic_ones():
    for event in (ContentDelta(content="hé\n"), ThinkingContentDelta(content='"x"')):
        assert json.loads(encode_event(event)) == msgspec.to_builtins(event)


def test_error_details_reach_the_payload():
    event = Failed(code="OLLAMA_ERROR", message="ü", details={"retryable": True})
    assert json.loads(encode_event(event))["details"] == {"retryable": True}


def test_every_event_has_a_name_of_its_own():
    names = [event.event for event in EVENTS]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalpha() for name in names)


def test_what_was_encoded_is_decoded_to_the_same_event():
    event = ToolCallStarted(tool_name="t", arguments={"ü": 1}, call_index=0, tool_call_id="c")
    numbered = NumberedEvent(1, event.event, encode_event(event))
    assert numbered.decode() == event


def test_an_event_of_a_newer_release_is_not_decoded():
    assert NumberedEvent(1, "video_delta", "{}").decode() is None


@given(NASTY)
def test_the_text_of_a_delta_is_cut_out_as_it_is(text):
    for event in (ContentDelta(content=text), ThinkingContentDelta(content=text)):
        literal = text_literal(encode_event(event))
        assert literal[0] == literal[-1] == '"'
        assert json.loads(literal) == text


def test_a_text_that_looks_like_the_end_of_a_payload_is_cut_out_whole():
    for text in ('x","role":"assistant"}', '","role":"assistant"}', "\\", '"', "", "}"):
        for event in (ContentDelta(content=text), ThinkingContentDelta(content=text)):
            assert json.loads(text_literal(encode_event(event))) == text
