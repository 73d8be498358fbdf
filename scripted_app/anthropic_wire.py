"""Speaks Anthropic's Messages API: content blocks, each started, streamed and stopped.

Refuses what the real one refuses, because that is what a history from elsewhere trips over: a
missing ``max_tokens``, empty texts, odd call ids, calls without results, thinking that another
model signed, and extended thinking whose running round does not begin with signed thinking.
"""

import re
import secrets
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from scripted_app.model_cards import VENDOR_NAMES, ModelCard, find_vendor_card
from scripted_app.received_files import with_files
from scripted_app.replies import (
    Chunk,
    Reason,
    ReasoningChunk,
    RequestMessage,
    TextChunk,
    ToolCallChunk,
)
from scripted_app.wire import (
    ChatRequest,
    Refused,
    check_length,
    cut_by_utf16,
    encode,
    joined,
)

FRAGMENT_CHARACTERS = 12
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STOP_REASONS: Mapping[Reason, str] = {"length": "max_tokens", "refused": "refusal"}
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")


def error_body(status: int, message: str) -> bytes:
    """Return the body of an error."""
    kind = ERROR_TYPES.get(status, "api_error")
    return encode({"type": "error", "error": {"type": kind, "message": message}})


def read_chat(body: Mapping[str, Any]) -> ChatRequest:
    """Check a body of ``POST /v1/messages``.

    Raises:
        Refused: With an HTTP status.
    """
    name = body.get("model")
    card = find_model(name)
    if not isinstance(body.get("max_tokens"), int):
        raise Refused(400, "max_tokens: Field required")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "messages: at least one message is required")
    thinking = body.get("thinking")
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    think = kind in ("enabled", "adaptive")
    if (think or body.get("tools")) and card.capabilities == ("completion",):
        raise Refused(400, f"'{name}' does not support this parameter.")
    _check_conversation(messages, _signature(str(name)), signed=kind == "enabled")
    request = ChatRequest(
        card=card,
        name=str(name),
        messages=[
            *_system(body.get("system")),
            *(said for each in messages for said in _said(each)),
        ],
        stream=body.get("stream") is True,
        think=think,
        format=_format(body.get("output_config")),
        calls_first=bool(body.get("tools")),
    )
    check_length(request, "prompt is too long: {tokens} tokens > {limit} maximum")
    return request


def _format(config: Any) -> Mapping[str, Any] | None:
    asked = config.get("format") if isinstance(config, dict) else None
    return asked.get("schema") if isinstance(asked, dict) else None


def find_model(name: Any) -> ModelCard:
    """Return the model of this name.

    Raises:
        Refused: It does not exist.
    """
    card = find_vendor_card("anthropic", name) if isinstance(name, str) else None
    if card is None:
        raise Refused(404, f"model: {name}")
    return card


def model(name: str, card: ModelCard) -> dict[str, Any]:
    """Return a model as ``GET /v1/models/{name}`` shows it."""
    thinks = {"supported": "thinking" in card.capabilities}
    return {
        "type": "model",
        "id": name,
        "display_name": f"Scripted {name}",
        "created_at": "2026-01-01T00:00:00Z",
        "max_input_tokens": card.context_length,
        "capabilities": {"thinking": thinks},
    }


def models() -> dict[str, Any]:
    """Return the body of ``GET /v1/models``."""
    data = [model(name, card) for name, card in VENDOR_NAMES["anthropic"].items()]
    return {"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}


class AnthropicReply:
    """One reply of ``POST /v1/messages``."""

    content_type = "text/event-stream"

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._id = f"msg_{secrets.token_hex(12)}"
        self._begun = False
        self._open: type[Chunk] | None = None
        self._index = -1
        self._called = False

    def frames(self, chunk: Chunk) -> Iterator[bytes]:
        """Yield the events of a chunk; a tool call's arguments are sent in fragments."""
        match chunk:
            case TextChunk(text):
                block: dict[str, Any] = {"type": "text", "text": ""}
                opening = self._switch(TextChunk, block)
                yield opening + self._delta({"type": "text_delta", "text": text})
            case ReasoningChunk(text):
                block = {"type": "thinking", "thinking": "", "signature": ""}
                opening = self._switch(ReasoningChunk, block)
                yield opening + self._delta({"type": "thinking_delta", "thinking": text})
            case ToolCallChunk():
                self._called = True
                block = {"type": "tool_use", "id": _call_id(chunk), "name": chunk.name, "input": {}}
                yield self._switch(None, block)
                arguments = encode(chunk.arguments).decode()
                for piece in cut_by_utf16(arguments, FRAGMENT_CHARACTERS):
                    yield self._delta({"type": "input_json_delta", "partial_json": piece})
                self._open = ToolCallChunk

    def end(self, reason: Reason, completion_tokens: int) -> bytes:
        """Return the end: the block's stop, the stop reason and the token counts."""
        word = _STOP_REASONS.get(reason) or ("tool_use" if self._called else "end_turn")
        delta = {"stop_reason": word, "stop_sequence": None}
        usage = {"output_tokens": completion_tokens}
        events = self._start() + self._close()
        events += _event({"type": "message_delta", "delta": delta, "usage": usage})
        return events + _event({"type": "message_stop"})

    def error(self, message: str) -> bytes:
        """Return an error event."""
        return self._start() + b"event: error\ndata: " + error_body(529, message) + b"\n\n"

    def whole(self, chunks: Sequence[Chunk], completion_tokens: int) -> bytes:
        """Return a whole message."""
        content: list[dict[str, Any]] = []
        signature = _signature(self._request.name)
        for kind, group in groupby(chunks, key=type):
            pieces = list(group)
            if kind is ReasoningChunk:
                text = joined(pieces, ReasoningChunk)
                content.append({"type": "thinking", "thinking": text, "signature": signature})
            elif kind is TextChunk:
                content.append({"type": "text", "text": joined(pieces, TextChunk)})
            else:
                content += [_block(call) for call in pieces if isinstance(call, ToolCallChunk)]
        called = any(isinstance(chunk, ToolCallChunk) for chunk in chunks)
        return encode(
            {
                **self._message("tool_use" if called else "end_turn", completion_tokens),
                "content": content,
            }
        )

    def _message(self, stop_reason: str | None, completion_tokens: int) -> dict[str, Any]:
        prompt = self._request.prompt_tokens
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._request.name,
            "content": [],
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": prompt, "output_tokens": completion_tokens},
        }

    def _start(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        start = _event({"type": "message_start", "message": self._message(None, 1)})
        return start + _event({"type": "ping"})

    def _switch(self, kind: type[Chunk] | None, block: Mapping[str, Any]) -> bytes:
        """Open a block, unless one of this kind is open already; None always opens one."""
        if kind is not None and self._open is kind:
            return b""
        events = self._start() + self._close()
        self._index += 1
        self._open = kind
        opened = {"type": "content_block_start", "index": self._index, "content_block": block}
        return events + _event(opened)

    def _close(self) -> bytes:
        if self._index < 0:
            return b""
        signed = b""
        if self._open is ReasoningChunk:
            signature = _signature(self._request.name)
            signed = self._delta({"type": "signature_delta", "signature": signature})
        return signed + _event({"type": "content_block_stop", "index": self._index})

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        index = max(0, self._index)
        return _event({"type": "content_block_delta", "index": index, "delta": delta})


def _event(data: Mapping[str, Any]) -> bytes:
    return b"event: " + str(data["type"]).encode() + b"\ndata: " + encode(data) + b"\n\n"


def _block(call: ToolCallChunk) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": _call_id(call),
        "name": call.name,
        "input": call.arguments,
    }


def _call_id(chunk: ToolCallChunk) -> str:
    return f"toolu_{chunk.id.removeprefix('call_')}"


def _system(system: Any) -> list[RequestMessage]:
    return [RequestMessage("system", _text(system))] if system else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return with_files(
        "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text"),
        [block["source"]["data"] for block in blocks if block.get("type") in {"image", "document"}],
    )


def _said(message: Mapping[str, Any]) -> list[RequestMessage]:
    role, content = str(message["role"]), message["content"]
    results = [block for block in _blocks(content) if block.get("type") == "tool_result"]
    said = [RequestMessage("tool", _text(result.get("content"))) for result in results]
    text = _text(content)
    return [*said, RequestMessage(role, text)] if text or not said else said


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _signature(model: str) -> str:
    """Return the signature of a model's thinking, which no other model accepts."""
    return b64encode(f"signed by the scripted {model}".encode()).decode()


def _check_conversation(messages: Sequence[Any], signature: str, *, signed: bool) -> None:
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        if message.get("role") not in ("user", "assistant"):
            raise Refused(400, f"messages.{index}.role: Input should be 'user' or 'assistant'")
        if index == 0 and message["role"] != "user":
            raise Refused(400, 'messages: first message must use the "user" role')
        blocks = _blocks(message.get("content"))
        for place, block in enumerate(blocks):
            if block["type"] == "thinking" and block.get("signature") != signature:
                where = f"messages.{index}.content.{place}"
                raise Refused(400, f"{where}: Invalid `signature` in `thinking` block")
        results = {block.get("tool_use_id") for block in blocks if block["type"] == "tool_result"}
        if results - waiting:
            raise Refused(400, f"messages.{index}: unexpected `tool_use_id` found in `tool_result`")
        if waiting - results:
            raise Refused(400, f"messages.{index}: `tool_use` ids were found without `tool_result`")
        if any(block["type"] == "text" and not block.get("text") for block in blocks):
            raise Refused(400, f"messages.{index}: text content blocks must be non-empty")
        waiting = {str(block["id"]) for block in blocks if block["type"] == "tool_use"}
        if any(not _CALL_ID.fullmatch(call_id) for call_id in waiting):
            raise Refused(400, f"messages.{index}: tool_use.id should match '^[a-zA-Z0-9_-]+$'")
    if waiting:
        raise Refused(400, "`tool_use` ids were found without `tool_result` blocks")
    if signed:
        _check_running_round(messages)


def _check_running_round(messages: Sequence[Any]) -> None:
    """Extended thinking needs the model's own thinking back, while its calls are answered."""
    last = _blocks(messages[-1]["content"])
    if all(block["type"] != "tool_result" for block in last):
        return
    first = _blocks(messages[-2]["content"])[0]
    if first["type"] != "thinking":
        raise Refused(
            400,
            f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or "
            f"`redacted_thinking`, but found `{first['type']}`.",
        )
