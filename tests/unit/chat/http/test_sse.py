import json

import pytest
from httpx_sse._decoders import SSEDecoder
from hypothesis import given
from hypothesis import strategies as st

from chat.http import sse
from chat.stream.encoding import encode_event
from chat.stream.events import ContentDelta
from chat.stream.numbered_event import NumberedEvent

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
    data = encode_event(ContentDelta(content=text))
    frames = sse.encode_frames("abc", [NumberedEvent(7, "content_delta", data)])
    [(event_id, name, received)] = parse(frames.decode())
    assert (event_id, name) == ("abc:7", "content_delta")
    assert json.loads(received) == {"content": text, "role": "assistant"}


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
