"""Bodies of requests, as clients send them."""

from typing import Any

import msgspec
import pytest

from dialects_app.chat_completions.body import CompletionIn
from dialects_app.chat_completions.request import ParsedCompletion, read_request
from dialects_app.shared.body import decode_body
from sessions_app.errors import MochiError

HELLO = {"role": "user", "content": "Hello!"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}


def function(name: str = "get_weather", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": PARAMETERS, **fields}}


def called(call_id: str = "call_a", name: str = "get_weather", arguments: Any = "{}") -> Any:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def body_of(*messages: Any, **fields: Any) -> CompletionIn:
    """Return a body, with one message of a user unless there are others."""
    asked = {"model": "qwen3:14b", "messages": list(messages) or [HELLO], **fields}
    return decode_body(msgspec.json.encode(asked), CompletionIn)


def asked(*messages: Any, where: dict[str, Any] | None = None, **fields: Any) -> ParsedCompletion:
    return read_request(body_of(*messages, **fields), **(where or {}))


def refused(*messages: Any, where: dict[str, Any] | None = None, **fields: Any) -> str:
    """Return the field for which a request is refused."""
    with pytest.raises(MochiError) as refusal:
        asked(*messages, where=where, **fields)
    return refusal.value.details["field"]
