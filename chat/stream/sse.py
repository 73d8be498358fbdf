"""Events as bytes: the payload's JSON, the frame on the wire, the line in the journal.

The hot path. A frame is ``id``, ``event`` and one ``data`` line of ASCII-escaped JSON (WHATWG HTML
section 9.2.6): with no raw CR, LF or non-ASCII in it, no text of a model can forge an event.
"""

import re
from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from typing import Any

import msgspec

from chat.stream.events import ContentDelta, Event, ThinkingContentDelta
from sessions_app.surrogates import mend_json

RETRY = b"retry: 2000\n\n"
HEARTBEAT = b": keep-alive\n\n"

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_quote: Callable[[str], str] = encode_basestring_ascii
_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode


def payload(event: Event) -> str:
    """Return an event's payload as one line of ASCII JSON."""
    if type(event) is ContentDelta:
        return f'{{"content":{_quote(event.content)},"role":"assistant"}}'
    if type(event) is ThinkingContentDelta:
        return f'{{"content":{_quote(event.content)}}}'
    return ascii_json(event)


def ascii_json(value: Any) -> str:
    """Return any JSON-compatible value as one line of ASCII JSON."""
    try:
        encoded = _to_json(value)
    except UnicodeEncodeError:  # half a character, of a tool or of somebody's error message
        encoded = _to_json(mend_json(msgspec.to_builtins(value)))
    if encoded.isascii():
        return encoded.decode("ascii")
    return _escape(encoded.decode("utf-8"))


def _escape(text: str) -> str:
    """Escape what is not ASCII; valid because JSON has such characters inside strings only."""
    return _NOT_ASCII.sub(lambda found: _quote(found[0])[1:-1], text)


def frame(turn_id: str, number: int, name: str, data: str) -> str:
    """Return the event as it goes to the client."""
    return f"id: {turn_id}:{number}\nevent: {name}\ndata: {data}\n\n"


EVENT_ID_PATTERN = "^([0-9A-Za-z]+:[0-9]{1,12})?$"
"""The ids that ``read_event_id`` reads, and the empty one that a browser may send."""


def read_event_id(value: str) -> tuple[str, int] | None:
    """Split an event id into turn and number; None when it is malformed."""
    turn_id, separator, digits = value.rpartition(":")
    if not separator or not turn_id.isalnum() or not turn_id.isascii():
        return None
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 12:
        return None
    return turn_id, int(digits)
