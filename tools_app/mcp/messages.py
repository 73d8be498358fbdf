"""Reads a server's JSON-RPC messages, also in forms that the SDK refuses. Pure.

The SDK drops a reply of an odd form, and the call that it answers waits until it times out.
Importing this module imports the SDK's types.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from mcp_types import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from sessions_app.bounds import has_too_many_values
from sessions_app.surrogates import mend_escapes
from tools_app.mcp.limits import MAX_BATCH, MAX_MESSAGE_BYTES, MAX_VALUES
from tools_app.mcp.results import json_text

BARE = "mochi-server/bare"
"""The key of a result that is no object, which the SDK could not pass on."""

_BOM = b"\xef\xbb\xbf"
_TOO_MANY = f"Its message has more than {MAX_VALUES:,} values and was not read."
_UNKNOWN = ""  # the id of a reply that names none
_ENVELOPE = frozenset({"id", "result", "error"})
_ID = re.compile(rb'"id"\s*:\s*"?(\d{1,9})\b')
_BEGIN = re.compile(rb'\s*[{\[]\s*(?:[{\["}\]]|$)')
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_MARK = b'"jsonrpc"'
_HEAD_BYTES = 100


def read_messages(data: bytes) -> list[JSONRPCMessage]:
    """Return the messages in a JSON text: one, or a batch.

    Raises:
        ValueError: There are none, more than ``MAX_BATCH``, or too many values in them.
    """
    if has_too_many_values(data, MAX_VALUES):
        raise ValueError(_TOO_MANY)
    text = mend_escapes(data.strip().removeprefix(_BOM))
    try:
        return [jsonrpc_message_adapter.validate_json(text, by_name=False)]
    except ValueError:
        items = _items(text)
    if len(items) > MAX_BATCH:
        raise ValueError(f"It sent more than {MAX_BATCH} messages at once.")
    messages = [message for item in items if (message := _message(item)) is not None]
    if not messages:
        raise ValueError("It is no JSON-RPC message.")
    return messages


def refused_reply(text: bytes) -> list[JSONRPCMessage]:
    """Return an error for the request that a text of broken JSON seems to answer."""
    if not _is_json(text) or _MARK not in text or b'"method"' in text:
        return []
    found = _ID.search(text, 0, _HEAD_BYTES)
    words = f"Its answer is not valid JSON: {text[:_HEAD_BYTES].decode(errors='replace')}"
    if has_too_many_values(text, MAX_VALUES):
        words = f"{_TOO_MANY} The tool may have run."
    error = ErrorData(code=PARSE_ERROR, message=words)
    return [JSONRPCError(jsonrpc="2.0", id=int(found[1]) if found else _UNKNOWN, error=error)]


class MessageLines:
    """Splits a program's output into messages: one a line, or one that is pretty-printed."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._open = 0
        self._is_in_text = False

    def feed(self, line: bytes) -> tuple[list[JSONRPCMessage], bytes]:
        """Return the messages that end with this line, and what turned out to be none."""
        is_inside = bool(self._held) and not (_is_json(line) and _MARK in line)
        if not is_inside:
            try:
                messages = read_messages(line)
            except ValueError:
                if not self._held and (not _is_json(line) or has_too_many_values(line, MAX_VALUES)):
                    return refused_reply(line), line
            else:
                held = self._release()  # it was never completed
                return [*refused_reply(held), *messages], held
        self._hold(line)
        if (self._open > 0 or self._is_in_text) and self._size <= MAX_MESSAGE_BYTES:
            return [], b""
        held = self._release()
        try:
            return read_messages(held), b""
        except ValueError:
            return refused_reply(held), held

    def _hold(self, line: bytes) -> None:
        self._held.append(line)
        self._size += len(line)
        rest = _STRING.sub(b"", b'"' + line if self._is_in_text else line)
        outside, begun, _ = rest.partition(b'"')
        self._is_in_text = bool(begun)
        self._open += sum(map(outside.count, (b"{", b"["))) - sum(map(outside.count, (b"}", b"]")))

    def _release(self) -> bytes:
        held = b"".join(self._held)
        self._held, self._size, self._open, self._is_in_text = [], 0, 0, False
        return held


class Exchange:
    """Pairs the replies of one connection with their requests, and makes their results fit.

    Args:
        fits: Returns, by method, a result as the SDK accepts it.
    """

    def __init__(self, fits: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]) -> None:
        self._fits = fits
        self._methods: dict[str, str] = {}

    def note(self, message: JSONRPCMessage) -> None:
        """Remember a request until it is answered or cancelled."""
        if isinstance(message, JSONRPCRequest):
            self._methods[str(message.id)] = message.method
        elif isinstance(message, JSONRPCNotification) and message.method.endswith("/cancelled"):
            self._methods.pop(str((message.params or {}).get("requestId")), None)

    def fitted(self, message: JSONRPCMessage) -> JSONRPCMessage:
        """Return the message; a reply without an id gets that of the only open request."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return message
        if message.id in (None, _UNKNOWN) and len(self._methods) == 1:
            message.id = next(iter(self._methods))
        method = self._methods.pop(str(message.id), "")
        if isinstance(message, JSONRPCResponse) and method in self._fits:
            message.result = self._fits[method](message.result)
        return message


def _is_json(line: bytes) -> bool:
    return _BEGIN.match(line.removeprefix(_BOM)) is not None


def _items(text: bytes) -> list[Any]:
    """Decode a message or a batch; line ends and tabs in strings are accepted."""
    try:
        decoded = json.loads(text.decode(errors="replace"), strict=False)
    except RecursionError as error:
        raise ValueError("It is nested too deeply for a message.") from error
    return decoded if isinstance(decoded, list) else [decoded]


def _message(item: object) -> JSONRPCMessage | None:
    if not isinstance(item, dict) or ("jsonrpc" not in item and not item.keys() <= _ENVELOPE):
        return None  # such as a line of a log in JSON
    method, number = item.get("method"), _request_id(item.get("id"))
    if isinstance(method, str):
        params = item.get("params")
        more = {"params": params} if isinstance(params, dict) else {}
        if number is None:
            return JSONRPCNotification(jsonrpc="2.0", method=method, **more)
        return JSONRPCRequest(jsonrpc="2.0", id=number, method=method, **more)
    if not item.keys() & _ENVELOPE:
        return None
    error = item.get("error")
    if error or (error is not None and "result" not in item):
        return JSONRPCError(jsonrpc="2.0", id=number, error=_error(error))
    result = item.get("result")
    return JSONRPCResponse(
        jsonrpc="2.0",
        id=_UNKNOWN if number is None else number,
        result=result if isinstance(result, dict) else {BARE: result},
    )


def _request_id(value: object) -> int | str | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _error(error: object) -> ErrorData:
    fields = error if isinstance(error, dict) else {"message": error}
    code, message = fields.get("code"), fields.get("message", fields)
    return ErrorData(
        code=code if isinstance(code, int) else INTERNAL_ERROR,
        message=message if isinstance(message, str) else json_text(message),
        data=fields.get("data"),
    )
