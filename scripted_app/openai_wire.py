"""Speaks OpenAI's Chat Completions API: SSE, one choice for each scripted message."""

import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from scripted_app.model_cards import (
    CARDS,
    VENDOR_NAMES,
    ModelCard,
    find_vendor_card,
)
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
MAX_CALL_ID = 40
PULLED = 1_767_225_600
_NOT_IN_CHAT = {
    re.compile(r"^gpt-[\d.]+-pro"): (
        "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did "
        "you mean to use v1/completions?"
    ),
    re.compile("codex"): (
        "This model is only supported in v1/responses and not in v1/chat/completions."
    ),
}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def error_body(
    status: int, message: str, *, param: str | None = None, code: str | None = None
) -> bytes:
    """Return the body of an error."""
    kind = ERROR_TYPES.get(status, "api_error")
    return encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def read_json(raw: bytes) -> dict[str, Any]:
    """Return the request's body as an object.

    Raises:
        Refused: It is not JSON.
    """
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise Refused(400, "The body is no JSON.") from None
    if not isinstance(body, dict):
        raise Refused(400, "The body is no JSON object.")
    return body


def read_chat(body: Mapping[str, Any], *, vendor: str = "openai") -> ChatRequest:
    """Check a body of ``POST /v1/chat/completions``.

    On OpenAI's own route every name is a model, and none is needed (docs/test-mode.md). Thinking
    is asked for by ``reasoning_effort`` or OpenRouter's ``reasoning``.

    Raises:
        Refused: With an HTTP status.
    """
    name = body.get("model")
    card = any_model(name) if vendor == "openai" else find_model(name, vendor=vendor)
    name = card.name if name is None else name
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "[] is too short - 'messages'")
    _check_calls(messages)
    if vendor == "openai":
        _check_responses_only(card, str(name), body)
    think = _wants_reasoning(body)
    if think and "thinking" not in card.capabilities:
        raise Refused(400, f'"{name}" does not support thinking')
    if body.get("tools") and "tools" not in card.capabilities:
        raise Refused(400, f"registry.ollama.ai/library/{card.name} does not support tools")
    options = body.get("stream_options")
    request = ChatRequest(
        card=card,
        name=name,
        messages=[_message(item) for item in messages],
        stream=body.get("stream") is True,
        think=think,
        format=_format(body.get("response_format")),
        calls_first=bool(body.get("tools")),
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )
    check_length(
        request,
        "This model's maximum context length is {limit} tokens. However, your messages resulted "
        "in {tokens} tokens.",
    )
    return request


def find_model(name: Any, *, vendor: str = "openai") -> ModelCard:
    """Return the model of this name.

    Raises:
        Refused: It does not exist.
    """
    if not isinstance(name, str) or not name:
        raise Refused(400, "model is required")
    card = find_vendor_card(vendor, name)
    if card is None:
        raise Refused(404, f"model '{name}' not found")
    return card


def any_model(name: Any) -> ModelCard:
    """Return the model of this name; the first one for any other name, and for none.

    Raises:
        Refused: It is no name.
    """
    if name is not None and not isinstance(name, str):
        raise Refused(400, "model must be a string")
    return find_vendor_card("openai", name or "") or CARDS[0]


def check_effort(
    card: ModelCard, effort: str | None, parameter: str, supported: Sequence[str]
) -> None:
    """Refuse an effort of reasoning that the model does not take.

    Raises:
        Refused: With the supported ones.
    """
    if effort is not None and card.efforts and effort not in supported:
        names = ", ".join(f"'{each}'" for each in supported)
        raise Refused(
            400,
            f"Unsupported value: '{effort}' is not supported with this model. Supported values "
            f"are: {names}.",
            details={"param": parameter, "code": "unsupported_value"},
        )


def _check_responses_only(card: ModelCard, name: str, body: Mapping[str, Any]) -> None:
    """Refuse what only ``/v1/responses`` answers, in OpenAI's words."""
    if words := next((words for it, words in _NOT_IN_CHAT.items() if it.search(name)), None):
        raise Refused(404, words, details={"param": "model"})
    effort = body.get("reasoning_effort")
    check_effort(card, effort, "reasoning_effort", [it for it in card.efforts if it != "max"])
    if card.efforts and body.get("tools") and effort != "none":
        raise Refused(
            400,
            f"Function tools with reasoning_effort are not supported for {name} in "
            "/v1/chat/completions. To use function tools, use /v1/responses or set "
            "reasoning_effort to 'none'.",
            details={"param": "reasoning_effort"},
        )


def model(card: ModelCard) -> dict[str, Any]:
    """Return a model as ``GET /v1/models/{name}`` shows it."""
    return {"id": card.name, "object": "model", "created": PULLED, "owned_by": "library"}


def models() -> dict[str, Any]:
    """Return the body of ``GET /v1/models``."""
    return {"object": "list", "data": [model(card) for card in CARDS]}


def openrouter_models() -> dict[str, Any]:
    """Return the body of OpenRouter's ``GET /api/v1/models``; it has more fields than OpenAI's."""
    return {
        "data": [
            {
                "id": name,
                "name": f"Scripted: {name}",
                "created": PULLED,
                "context_length": card.context_length,
                "architecture": {
                    "input_modalities": ["text", *_images(card)],
                    "output_modalities": ["text"],
                },
                "supported_parameters": [
                    "max_tokens",
                    *(["tools", "tool_choice"] if "tools" in card.capabilities else []),
                    *(
                        ["reasoning", "include_reasoning"]
                        if "thinking" in card.capabilities
                        else []
                    ),
                ],
            }
            for name, card in VENDOR_NAMES["openrouter"].items()
        ]
    }


def _images(card: ModelCard) -> list[str]:
    return ["image"] if "vision" in card.capabilities else []


class OpenAIReply:
    """One reply of ``POST /v1/chat/completions``.

    Reasoning is in ``reasoning``; models named after DeepSeek's have it in ``reasoning_content``.
    """

    content_type = "text/event-stream"

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._created = int(time.time())
        self._id = f"gen-{self._created}-{secrets.token_hex(4)}"
        deepseek = request.name.startswith("deepseek")
        self._reasoning = "reasoning_content" if deepseek else "reasoning"

    def frames(self, chunk: Chunk) -> Iterator[bytes]:
        """Yield one event for a text; a tool call's name and arguments are sent in pieces."""
        index = chunk.message_index
        match chunk:
            case TextChunk(text):
                yield self._delta(index, {"content": text})
            case ReasoningChunk(text) if not self._request.card.efforts:
                yield self._delta(index, {self._reasoning: text})
            case ToolCallChunk():
                for call in _fragments(chunk):
                    yield self._delta(index, {"tool_calls": [call]})

    def end(self, reason: Reason, completion_tokens: int) -> bytes:
        """Return the one finish chunk, the usage if it was asked for, and ``[DONE]``."""
        word = "content_filter" if reason == "refused" else reason
        events = self._event([{"index": 0, "delta": {}, "finish_reason": word}])
        if self._request.include_usage:
            events += self._event([], usage=self._usage(completion_tokens))
        return events + b"data: [DONE]\n\n"

    def error(self, message: str) -> bytes:
        """Return an error event."""
        return b"data: " + error_body(500, message) + b"\n\n"

    def whole(self, chunks: Sequence[Chunk], completion_tokens: int) -> bytes:
        """Return a ``chat.completion`` with one choice for each message."""
        groups = [list(group) for _, group in groupby(chunks, key=lambda each: each.message_index)]
        return encode(
            {
                "id": self._id,
                "object": "chat.completion",
                "created": self._created,
                "model": self._request.name,
                "choices": [_choice(group) for group in groups or [[]]],
                "usage": self._usage(completion_tokens),
            }
        )

    def _delta(self, index: int, delta: Mapping[str, Any]) -> bytes:
        return self._event([{"index": index, "delta": delta}])

    def _event(self, choices: Sequence[Mapping[str, Any]], **rest: Any) -> bytes:
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "model": self._request.name,
            "created": self._created,
            "choices": choices,
            **rest,
        }
        return b"data: " + encode(chunk) + b"\n\n"

    def _usage(self, completion_tokens: int) -> dict[str, int]:
        prompt = self._request.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt + completion_tokens,
        }


def _fragments(chunk: ToolCallChunk) -> Iterator[dict[str, Any]]:
    function = {"name": chunk.name, "arguments": ""}
    yield {"index": chunk.call_index, "id": chunk.id, "type": "function", "function": function}
    for fragment in cut_by_utf16(encode(chunk.arguments).decode(), FRAGMENT_CHARACTERS):
        yield {"index": chunk.call_index, "function": {"arguments": fragment}}


def _choice(chunks: Sequence[Chunk]) -> dict[str, Any]:
    calls = [chunk for chunk in chunks if isinstance(chunk, ToolCallChunk)]
    text = joined(chunks, TextChunk)
    message: dict[str, Any] = {"role": "assistant", "content": None if calls and not text else text}
    if reasoning := joined(chunks, ReasoningChunk):
        message["reasoning"] = reasoning
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": encode(call.arguments).decode()},
            }
            for call in calls
        ]
    index = chunks[0].message_index if chunks else 0
    return {"index": index, "message": message, "finish_reason": "stop"}


def _wants_reasoning(body: Mapping[str, Any]) -> bool:
    reasoning = body.get("reasoning")
    asked = reasoning if isinstance(reasoning, dict) else {}
    effort = body.get("reasoning_effort") or asked.get("effort")
    return effort not in (None, "none") or bool(asked.get("max_tokens"))


def _message(item: Any) -> RequestMessage:
    if not isinstance(item, dict):
        raise Refused(400, "'messages' must be a list of objects")
    content = item.get("content")
    if isinstance(content, list):
        items = [part for part in content if isinstance(part, dict)]
        content = with_files(
            "".join(text for part in items if isinstance(text := part.get("text"), str)),
            [part["image_url"]["url"] for part in items if part.get("type") == "image_url"]
            + [part["file"]["file_data"] for part in items if part.get("type") == "file"],
        )
    text = content if isinstance(content, str) else ""
    # Clients of local servers break up what a chat template would read as its own tokens, with a
    # joiner of no width. The marks of a block look like such tokens.
    return RequestMessage(str(item.get("role", "")), text.replace("<\u200d|", "<|"))


def _check_calls(messages: Sequence[Any]) -> None:
    """Refuse calls without results and results without calls, as OpenAI does."""
    waiting: set[str] = set()
    for item in messages:
        if not isinstance(item, dict):
            raise Refused(400, "'messages' must be a list of objects")
        if item.get("role") == "tool":
            if item.get("tool_call_id") not in waiting:
                raise Refused(400, "messages with role 'tool' must be a response to a tool call")
            waiting.discard(item["tool_call_id"])
            continue
        if waiting:
            break
        calls = item.get("tool_calls") or []
        waiting = {str(call.get("id")) for call in calls if isinstance(call, dict)}
        for call_id in waiting:
            if len(call_id) > MAX_CALL_ID:
                raise Refused(400, f"Invalid 'tool_calls[0].id': maximum length {MAX_CALL_ID}")
    if waiting:
        missing = ", ".join(sorted(waiting))
        raise Refused(400, f"These tool_call_ids did not have response messages: {missing}")


def _format(response_format: Any) -> str | Mapping[str, Any] | None:
    if not isinstance(response_format, dict):
        return None
    match response_format.get("type"):
        case "json_object":
            return "json"
        case "json_schema":
            named = response_format.get("json_schema")
            schema = named.get("schema") if isinstance(named, dict) else None
            return schema if isinstance(schema, dict) and schema else "json"
        case _:
            return None
