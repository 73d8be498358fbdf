"""Bodies of requests, as clients send them."""

from typing import Any

import msgspec
import pytest

from dialects_app.messages.body import MessagesIn
from dialects_app.messages.request import read_request
from dialects_app.shared.body import decode_body
from dialects_app.shared.parsed_request import ParsedRequest
from sessions_app.errors import MochiError

READ = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}
HELLO = {"role": "user", "content": "Hello!"}


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def call(call_id: str = "toolu_1", name: str = "Read", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str = "toolu_1", content: Any = "42", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def asked(*messages: Any, where: dict[str, Any] | None = None, **fields: Any) -> ParsedRequest:
    """Parse a request, with one message of a user unless there are others."""
    given = {"model": "qwen3:14b", "max_tokens": 100, "messages": list(messages) or [HELLO]}
    body = decode_body(msgspec.json.encode({**given, **fields}), MessagesIn)
    return read_request(body, **{"can_think": True, **(where or {})})


def messages_of(*messages: Any, **fields: Any) -> list[tuple[str, str]]:
    """Return the role and the text of each message that the model is sent."""
    return [(each.role, each.content) for each in asked(*messages, **fields).chat.turn.messages]


def refused(*messages: Any, where: dict[str, Any] | None = None, **fields: Any) -> tuple[Any, str]:
    """Return the field for which a request is refused, and the sentence."""
    with pytest.raises(MochiError) as refusal:
        asked(*messages, where=where, **fields)
    return refusal.value.details["field"], refusal.value.message
