r"""Joins halves of surrogate pairs, and replaces a half that is alone by U+FFFD.

JSON can escape half a character (``"\ud83d"``), and Python's own parser keeps it, but it has no
UTF-8: neither a file nor an answer can hold it. What comes from models and tools is mended here.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from sessions_app.messages import ToolCall

REPLACEMENT = "\ufffd"

_MAY_BE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)


def is_unicode(text: str) -> bool:
    """Return whether the text has no half of a surrogate pair, i.e. can be written as UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def join_surrogates(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if is_unicode(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_json(value: Any) -> Any:
    """Return a JSON value with every text in it mended, nested ones and keys too."""
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, Mapping):
        mended: dict[Any, Any] = {}
        for key, item in value.items():
            name = join_surrogates(key) if isinstance(key, str) else key
            while name in mended:  # two names that differed in what can't be written
                name += REPLACEMENT
            mended[name] = mend_json(item)
        return mended
    if isinstance(value, list | tuple):
        return [mend_json(item) for item in value]
    return value


def mend_escapes(json_text: bytes) -> bytes:
    """Return JSON with escapes of lone surrogates replaced by that of U+FFFD, at the same length.

    For parsers that refuse such JSON as a whole.
    """
    if not _MAY_BE_SURROGATE.search(json_text):
        return json_text
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], json_text)


def mend_call_id(call_id: str) -> str:
    """Return an id that can be written; ids that differed differ still."""
    if is_unicode(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"call_{digest[:24]}"


def mend_call(call: ToolCall) -> ToolCall:
    """Return a call that can be written; the same one where there is nothing to mend."""
    if _is_writable(call):
        return call
    return ToolCall(
        id=mend_call_id(call.id),
        name=join_surrogates(call.name),
        arguments=mend_json(call.arguments),
        client_side=call.client_side,
        extra=mend_json(call.extra),
    )


def _is_writable(call: ToolCall) -> bool:
    try:
        _encode(call)
    except UnicodeEncodeError:
        return False
    except (TypeError, ValueError, OverflowError, RecursionError):
        return True  # but for another reason, which the codec tells
    return True


_encode = msgspec.json.Encoder(enc_hook=dict).encode
