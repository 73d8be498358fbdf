"""Speaks Google's Gemini API: parts of text, thought and function calls, in SSE.

Function calls have no ids and complete arguments, as from the real service.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
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
from scripted_app.wire import ChatRequest, Refused, check_length, encode

SIGNATURE = "c2lnbmVkIGJ5IHRoZSBzY3JpcHRlZCBtb2RlbA=="
FINISH_REASONS: Mapping[Reason, str] = {
    "stop": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY"
}  # fmt: skip
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "PAYMENT_REQUIRED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def error_body(status: int, message: str) -> bytes:
    """Return the body of an error."""
    kind = STATUSES.get(status, "INTERNAL")
    return encode({"error": {"code": status, "message": message, "status": kind}})


def read_chat(body: Mapping[str, Any], *, name: str, stream: bool) -> ChatRequest:
    """Check a body of ``POST /v1beta/models/{name}:streamGenerateContent``.

    Raises:
        Refused: With an HTTP status.
    """
    card = find_model(name)
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise Refused(400, "* GenerateContentRequest.contents: contents is not specified")
    config = body.get("generationConfig") or {}
    thinking = config.get("thinkingConfig") or {}
    think = (thinking.get("includeThoughts") or thinking.get("include_thoughts")) is True
    if think and "thinking" not in card.capabilities:
        raise Refused(400, "Thinking is not enabled for this model")
    if body.get("tools") and "tools" not in card.capabilities:
        raise Refused(400, "Function calling is not enabled for this model")
    _check_calls(contents)
    system = _text((body.get("systemInstruction") or {}).get("parts") or ())
    request = ChatRequest(
        card=card,
        name=name,
        messages=[
            *([RequestMessage("system", system)] if system else []),
            *(said for content in contents for said in _said(content)),
        ],
        stream=stream,
        think=think,
        format=config.get("responseJsonSchema"),
        calls_first=bool(body.get("tools")),
    )
    check_length(
        request,
        "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit}).",
    )
    return request


def find_model(name: str) -> ModelCard:
    """Return the model of this name.

    Raises:
        Refused: It does not exist.
    """
    card = find_vendor_card("google", name)
    if card is None:
        raise Refused(404, f"models/{name} is not found for API version v1beta")
    return card


def model(name: str, card: ModelCard) -> dict[str, Any]:
    """Return a model as ``GET /v1beta/models/{name}`` shows it."""
    return {
        "name": f"models/{name}",
        "displayName": f"Scripted {name}",
        "inputTokenLimit": card.context_length,
        "outputTokenLimit": card.context_length,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": "thinking" in card.capabilities,
    }


def models() -> dict[str, Any]:
    """Return the body of ``GET /v1beta/models``, with one model that can't chat."""
    embedding = {
        "name": "models/gemini-embedding-001",
        "inputTokenLimit": 2048,
        "supportedGenerationMethods": ["embedContent"],
    }
    return {"models": [*(model(*item) for item in VENDOR_NAMES["google"].items()), embedding]}


class GoogleReply:
    """One reply of ``:streamGenerateContent?alt=sse`` or ``:generateContent``."""

    content_type = "text/event-stream"

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._id = secrets.token_hex(8)

    def frames(self, chunk: Chunk) -> Iterator[bytes]:
        """Yield one event for each chunk; calls are complete."""
        yield self._event({"content": {"parts": [_part(chunk)], "role": "model"}, "index": 0})

    def end(self, reason: Reason, completion_tokens: int) -> bytes:
        """Return the last event, which has the reason and the counts."""
        word = FINISH_REASONS[reason]
        candidate = {"content": {"role": "model"}, "finishReason": word, "index": 0}
        return self._event(candidate, completion_tokens)

    def error(self, message: str) -> bytes:
        """Return an error event."""
        return b"data: " + error_body(503, message) + b"\r\n\r\n"

    def whole(self, chunks: Sequence[Chunk], completion_tokens: int) -> bytes:
        """Return everything in one answer."""
        parts = [_part(chunk) for chunk in chunks]
        candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}
        return encode(self._answer(candidate, completion_tokens))

    def _event(self, candidate: Mapping[str, Any], completion_tokens: int | None = None) -> bytes:
        return b"data: " + encode(self._answer(candidate, completion_tokens)) + b"\r\n\r\n"

    def _answer(
        self, candidate: Mapping[str, Any], completion_tokens: int | None
    ) -> dict[str, Any]:
        prompt = self._request.prompt_tokens
        usage: dict[str, Any] = {"promptTokenCount": prompt, "totalTokenCount": prompt}
        if completion_tokens is not None:
            usage["candidatesTokenCount"] = completion_tokens
            usage["totalTokenCount"] = prompt + completion_tokens
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": self._request.name,
            "responseId": self._id,
        }


def _part(chunk: Chunk) -> dict[str, Any]:
    match chunk:
        case TextChunk(text):
            return {"text": text}
        case ReasoningChunk(text):
            return {"text": text, "thought": True}
        case ToolCallChunk():
            call = {"name": chunk.name, "args": chunk.arguments}
            return {"functionCall": call, "thoughtSignature": SIGNATURE}


def _text(parts: Sequence[Mapping[str, Any]]) -> str:
    return with_files(
        "".join(str(part["text"]) for part in parts if "text" in part),
        [part["inlineData"]["data"] for part in parts if "inlineData" in part],
    )


def _said(content: Mapping[str, Any]) -> list[RequestMessage]:
    parts = content.get("parts") or []
    role = "assistant" if content.get("role") == "model" else "user"
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    said = [RequestMessage("tool", str(result.get("response"))) for result in results]
    text = _text(parts)
    return [*said, RequestMessage(role, text)] if text or not said else said


def _check_calls(contents: Sequence[Mapping[str, Any]]) -> None:
    waiting = 0
    for content in contents:
        if content.get("role") not in ("user", "model"):
            raise Refused(400, "Please use a valid role: user, model.")
        parts = content.get("parts") or []
        answered = sum("functionResponse" in part for part in parts)
        if answered != waiting:
            raise Refused(
                400,
                "Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn.",
            )
        waiting = sum("functionCall" in part for part in parts)
    if waiting:
        raise Refused(400, "Please ensure that function call turn comes before a response turn.")
