"""Encodes events as one line of ASCII JSON, for the journal, the stream and other protocols.

The hot path. Without raw CR, LF and non-ASCII characters, no text of a model can forge an event of
a stream (WHATWG HTML section 9.2.6).
"""

import json
import re
from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from typing import Any

import msgspec

from chat.stream.events import ContentDelta, Event, ThinkingContentDelta
from sessions_app.surrogates import mend_json

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_quote: Callable[[str], str] = encode_basestring_ascii
_to_json = msgspec.json.Encoder(enc_hook=dict).encode


def encode_event(event: Event) -> str:
    """Return an event's payload as one line of ASCII JSON."""
    if type(event) is ContentDelta:
        return f'{{"content":{_quote(event.content)},"role":"assistant"}}'
    if type(event) is ThinkingContentDelta:
        return f'{{"content":{_quote(event.content)}}}'
    return ascii_json(event)


_HEAD = '{"content":'
_TAIL_OF_CONTENT = ',"role":"assistant"}'


def text_literal(data: str) -> str:
    """Return the text of a ``content_delta`` or ``thinking_delta`` as a JSON string literal.

    Includes the quotes, to be inserted into the JSON of another protocol without decoding.

    Args:
        data: The payload, as ``encode_event`` made it.
    """
    if data.endswith(_TAIL_OF_CONTENT):
        return data[len(_HEAD) : -len(_TAIL_OF_CONTENT)]
    return data[len(_HEAD) : -1]


def without_leading_space(literal: str) -> str | None:
    """Return a JSON string without leading white space; None if nothing is left."""
    if literal[1] not in " \\":
        return literal if literal != '""' else None
    text = str(json.loads(literal)).lstrip()
    return ascii_json(text) if text else None


def ascii_json(value: Any) -> str:
    """Return any JSON-compatible value as one line of ASCII JSON."""
    try:
        encoded = _to_json(value)
    except UnicodeEncodeError:  # half a character, of a tool or of an error message
        encoded = _to_json(mend_json(msgspec.to_builtins(value, enc_hook=dict)))
    if encoded.isascii():
        return encoded.decode("ascii")
    return _escape(encoded.decode("utf-8"))


def _escape(text: str) -> str:
    """Escape non-ASCII characters, which JSON has inside strings only."""
    try:
        return json.dumps(json.loads(text), separators=(",", ":"))
    except RecursionError:  # slower where every other character is one of them
        return _NOT_ASCII.sub(lambda found: _quote(found[0])[1:-1], text)
