"""Reads a server's JSON-RPC messages, also in forms that the SDK refuses.

The SDK drops a reply of an odd form, and the call that it answers waits until it times out.
Importing this module imports the SDK's types.
"""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from mcp_types import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from sessions_app.bounds import has_too_many_values
from sessions_app.finite_numbers import AS_TEXT
from sessions_app.surrogates import mend_escapes
from tools_app.mcp.limits import MAX_BATCH, MAX_MESSAGE_BYTES, MAX_VALUES
from tools_app.mcp.results import json_text

BARE = "mochi-server/bare"
"""The key of a result that is no object, which the SDK could not pass on."""
UNKNOWN = ""
"""The id of a reply that names none."""

_BOM = b"\xef\xbb\xbf"
_ENVELOPE = frozenset({"id", "result", "error"})
_ID = re.compile(rb'"id"\s*:\s*"?(\d{1,9})\b')
_BEGIN = re.compile(rb'\s*[{\[]\s*(?:[{\["}\]]|$)')
_MARK = b'"jsonrpc"'
_END_BYTES = 100
_LARGE_BYTES = 256 << 10
_MOST_QUOTES = 4 * MAX_VALUES  # of a key and a text for each value

T = TypeVar("T")


async def in_thread_if_large(parse: Callable[[bytes], T], data: bytes, held: int = 0) -> T:
    """Return what reading the data gives, without holding up the event loop."""
    if len(data) + held > _LARGE_BYTES:
        return await asyncio.to_thread(parse, data)
    return parse(data)


def read_messages(data: bytes) -> list[JSONRPCMessage]:
    """Return the messages in a text: one, or a batch; none if it is something else.

    A reply that can't be read becomes an error that says why, so that its call ends at once.
    """
    text = data.strip().removeprefix(_BOM)
    try:
        items = _items(text)
    except (ValueError, RecursionError) as error:
        return _refused(text, str(error))
    return [message for item in items if (message := _message(item)) is not None]


class MessageLines:
    """Splits a program's output into messages: one a line, or one that is pretty-printed."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._open = 0
        self._is_in_text = False
        self.size = 0

    def feed(self, line: bytes) -> tuple[list[JSONRPCMessage], bytes]:
        """Return the messages that end with this line, and what turned out to be none."""
        is_json = _BEGIN.match(line.removeprefix(_BOM)) is not None
        if self._held and is_json and _MARK in line and (messages := read_messages(line)):
            held = self._release()  # it was never completed
            return [*read_messages(held), *messages], held
        if not self._held and not is_json:
            return [], line
        self._held.append(line)
        self.size += len(line)
        if not self._is_whole(line):
            return [], b""
        held = self._release()
        messages = read_messages(held)
        return messages, b"" if messages else held

    def _is_whole(self, line: bytes) -> bool:
        bare = line.replace(b"\\\\", b"").replace(b'\\"', b"")
        if (
            self.size > MAX_MESSAGE_BYTES
            or bare.count(b'"') > _MOST_QUOTES  # to split it would hold up all threads
            or has_too_many_values(line, MAX_VALUES)
        ):
            return True
        texts = ((b'"' if self._is_in_text else b"") + bare).split(b'"')
        self._is_in_text = len(texts) % 2 == 0
        outside = b"".join(texts[::2])
        self._open += sum(map(outside.count, (b"{", b"["))) - sum(map(outside.count, (b"}", b"]")))
        return self._open <= 0 and not self._is_in_text

    def _release(self) -> bytes:
        held = b"".join(self._held)
        self._held, self._open, self._is_in_text, self.size = [], 0, False, 0
        return held


def _items(text: bytes) -> list[Any]:
    """Decode a message or a batch; bytes that are no UTF-8, tabs in texts, and NaN are accepted."""
    if has_too_many_values(text, MAX_VALUES):
        raise ValueError(f"it has more than {MAX_VALUES:,} values")
    decoded = json.loads(mend_escapes(text).decode(errors="replace"), strict=False, **AS_TEXT)
    items = decoded if isinstance(decoded, list) else [decoded]
    if len(items) > MAX_BATCH:
        raise ValueError(f"it has more than {MAX_BATCH:,} messages")
    return items


def _refused(text: bytes, reason: str) -> list[JSONRPCMessage]:
    head, tail = text[:_END_BYTES], text[-_END_BYTES:]
    if not _BEGIN.match(text) or _MARK not in head + tail or b'"method"' in head:
        return []
    number = _ID.search(head) or _ID.search(tail)
    said = f"Its answer can't be read: {reason}. The tool may have run. The answer begins with: "
    error = ErrorData(code=PARSE_ERROR, message=said + head.decode(errors="replace"))
    return [JSONRPCError(jsonrpc="2.0", id=int(number[1]) if number else UNKNOWN, error=error)]


def _message(item: object) -> JSONRPCMessage | None:
    if not isinstance(item, dict) or ("jsonrpc" not in item and not item.keys() <= _ENVELOPE):
        return None  # such as a line of a log in JSON
    if isinstance(item.get("method"), str):
        params = item.get("params")
        more = {"jsonrpc": "2.0", "params": params if isinstance(params, dict) else None}
        return jsonrpc_message_adapter.validate_python({**item, **more}, by_name=False)
    if not item.keys() & _ENVELOPE:
        return None
    number = item.get("id")
    key = UNKNOWN if number is None else str(number).removesuffix(".0")
    error, result = item.get("error"), item.get("result")
    if error or (error is not None and "result" not in item):
        return JSONRPCError(jsonrpc="2.0", id=key, error=_error(error))
    bare = result if isinstance(result, dict) else {BARE: result}
    return JSONRPCResponse(jsonrpc="2.0", id=key, result=bare)


def _error(error: object) -> ErrorData:
    fields = error if isinstance(error, dict) else {"message": error}
    code, message = fields.get("code"), fields.get("message")
    return ErrorData(
        code=code if isinstance(code, int) else INTERNAL_ERROR,
        message=message if isinstance(message, str) else json_text(error),
        data=fields.get("data"),
    )
