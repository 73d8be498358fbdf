r"""Joins surrogate pairs and replaces lone surrogates by U+FFFD.

JSON can escape a lone surrogate (``"\ud83d"``), and Python's parser keeps it, but it can't be
encoded as UTF-8 in a file or a response. Here, output of models and tools is repaired.
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
    """Return whether the text has no surrogates, so that it can be encoded as UTF-8."""
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
    """Return a JSON value with all strings in it repaired, including nested ones and keys."""
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, Mapping):
        mended: dict[Any, Any] = {}
        repeated: dict[str, int] = {}
        for key, item in value.items():
            name = join_surrogates(key) if isinstance(key, str) else key
            if name in mended:  # two keys that differed only in surrogates
                name = _another(name, mended, repeated)
            mended[name] = mend_json(item)
        return mended
    if isinstance(value, list | tuple):
        return [mend_json(item) for item in value]
    return value


def _another(name: str, taken: Mapping[Any, Any], repeated: dict[str, int]) -> str:
    """Return a key in the place of one that is taken, from the third on with a number.

    Args:
        name: The key.
        taken: The keys that are taken.
        repeated: How often each key was taken so far; it goes on from there.
    """
    while True:
        repeated[name] = number = repeated.get(name, 0) + 1
        other = f"{name}{REPLACEMENT}{number if number > 1 else ''}"
        if other not in taken:
            return other


def mend_escapes(json_text: bytes) -> bytes:
    """Replace escapes of lone surrogates in JSON by that of U+FFFD, which has the same length.

    For parsers that reject such JSON.
    """
    if not _MAY_BE_SURROGATE.search(json_text):
        return json_text
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], json_text)


def mend_call_id(call_id: str) -> str:
    """Return an id that can be encoded; different ids remain different."""
    if is_unicode(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"call_{digest[:24]}"


def mend_call(call: ToolCall) -> ToolCall:
    """Return a call that can be encoded; the same object if it can be already."""
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
        return True  # it fails for another reason, which the codec reports
    return True


_encode = msgspec.json.Encoder(enc_hook=dict).encode
