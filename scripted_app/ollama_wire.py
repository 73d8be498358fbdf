"""Speaks Ollama's HTTP API as a real server does (observed on Ollama 0.32.15).

Lines are NDJSON with ``<``, ``>`` and ``&`` escaped; timestamps have nanoseconds, durations are in
nanoseconds; errors are ``{"error": "..."}``.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from scripted_app import wire
from scripted_app.model_cards import CARDS, ModelCard, find_card
from scripted_app.received_files import with_files
from scripted_app.replies import (
    Chunk,
    Reason,
    ReasoningChunk,
    RequestMessage,
    TextChunk,
    ToolCallChunk,
)
from scripted_app.wire import ChatRequest, Refused, joined

VERSION = "0.32.15"
NEVER_PULLED = "2026-01-01T00:00:00Z"
THINK_LEVELS = (None, True, False, "high", "medium", "low", "max")
INTEGER_OPTIONS = ("num_ctx", "num_predict", "num_keep", "seed", "top_k", "repeat_last_n")
FLOAT_OPTIONS = ("temperature", "top_p", "min_p", "repeat_penalty", "presence_penalty")


def encode(value: Any) -> bytes:
    """Return compact JSON, escaped as Go's encoder does."""
    text = wire.encode(value)
    return text.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")


def error_body(message: str) -> bytes:
    """Return the body of an error."""
    return encode({"error": message})


def timestamp() -> str:
    """Return the time, UTC, with nanoseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def read_json(raw: bytes) -> dict[str, Any]:
    """Return the request's body as an object.

    Raises:
        Refused: It is not JSON.
    """
    if not raw:
        raise Refused(400, "missing request body")
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise Refused(400, "unexpected EOF") from None
    if not isinstance(body, dict):
        raise Refused(400, "json: cannot unmarshal value into Go value of type api.ChatRequest")
    return body


def read_chat(body: Mapping[str, Any]) -> ChatRequest:
    """Check a body of ``POST /api/chat`` in the order in which Ollama does.

    Raises:
        Refused: With Ollama's status and words.
    """
    messages = [_message(item) for item in _list(body.get("messages"), "messages")]
    think, form, name = body.get("think"), body.get("format"), body.get("model")
    if think not in THINK_LEVELS:
        levels = '"high", "medium", "low", "max", true, or false'
        raise Refused(400, f'invalid think value: "{think}" (must be {levels})')
    if not isinstance(name, str) or not name:
        raise Refused(400, "model is required")
    card = find_card(name)
    if card is None:
        raise _not_found(name)
    _check_abilities(card, body)
    options = body.get("options") or {}
    _check_options(options)
    if form and form != "json" and not isinstance(form, dict):
        wanted = 'expected "json" or a valid JSON Schema object'
        raise Refused(500, f"invalid format: {msgspec.json.encode(form).decode()}; {wanted}")
    window = options.get("num_ctx")
    request = ChatRequest(
        card=card,
        name=name,
        messages=messages,
        stream=body.get("stream") is not False,
        think=bool(think),
        format=form or None,
        context_window=min(int(window), card.context_length) if window and window >= 1 else None,
    )
    if body.get("truncate") is False:
        _check_window(request)
    limits = [options["num_predict"]] if (options.get("num_predict") or 0) > 0 else []
    if body.get("shift") is False and request.context_window is not None:
        limits.append(max(request.context_window - request.prompt_tokens, 0))
    return msgspec.structs.replace(request, answer_tokens=int(min(limits)) if limits else None)


def find_model(body: Mapping[str, Any]) -> ModelCard:
    """Return the model that a body of ``POST /api/show`` names.

    Raises:
        Refused: There is no such model.
    """
    name = body.get("model") or body.get("name")
    if not isinstance(name, str) or not name:
        raise Refused(400, "model is required")
    card = find_card(name)
    if card is None:
        raise _not_found(name if ":" in name else f"{name}:latest")
    return card


def _not_found(name: str) -> Refused:
    """Return Ollama's refusal, with the models that there are: none can be pulled here."""
    scripted = ", ".join(card.name for card in CARDS)
    return Refused(404, f"model '{name}' not found; the scripted models are {scripted}")


def tags() -> dict[str, Any]:
    """Return the body of ``GET /api/tags``.

    As a real server's, its capabilities can't be trusted: they leave out what the chat template
    brings. ``show`` has them all.
    """
    return {
        "models": [
            {
                "name": card.name,
                "model": card.name,
                "modified_at": NEVER_PULLED,
                "size": card.size,
                "digest": card.digest,
                "details": card.details,
                "capabilities": ["completion"],
            }
            for card in CARDS
        ]
    }


def show(card: ModelCard) -> dict[str, Any]:
    """Return the body of ``POST /api/show``."""
    return {
        "license": "",
        "modelfile": f"# Modelfile of the scripted model\nFROM {card.name}\n",
        "parameters": "temperature                    0.6\ntop_k                          20",
        "template": "{{ .Prompt }}",
        "details": card.details,
        "model_info": {
            "general.architecture": card.family,
            f"{card.family}.context_length": card.context_length,
            "tokenizer.ggml.model": "gpt2",
        },
        "capabilities": list(card.capabilities),
        "modified_at": NEVER_PULLED,
    }


def running(loaded: Mapping[str, int]) -> dict[str, Any]:
    """Return the body of ``GET /api/ps``; ``loaded`` maps names to context windows."""
    return {
        "models": [
            {
                "name": card.name,
                "model": card.name,
                "size": card.size,
                "digest": card.digest,
                "details": card.details,
                "expires_at": "2318-01-01T00:00:00Z",
                "size_vram": card.size,
                "context_length": loaded[card.name],
            }
            for card in CARDS
            if card.name in loaded
        ]
    }


def loaded_body(name: str, *, unload: bool) -> bytes:
    """Return the answer to a chat without messages: the model was loaded, or unloaded."""
    return encode(
        {
            "model": name,
            "created_at": timestamp(),
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "done_reason": "unload" if unload else "load",
        }
    )


class OllamaReply:
    """One reply of ``POST /api/chat``."""

    content_type = "application/x-ndjson"

    def __init__(self, request: ChatRequest) -> None:
        self._model = request.name
        limit = request.context_window
        tokens = request.prompt_tokens
        # Without truncate:false Ollama silently cuts the prompt to the window.
        self._prompt_tokens = tokens if limit is None else min(tokens, limit)
        self._calls = 0
        self._started = time.monotonic_ns()

    def frames(self, chunk: Chunk) -> Iterator[bytes]:
        """Yield one line for each chunk; a tool call is never cut into pieces."""
        match chunk:
            case TextChunk(text):
                message: dict[str, Any] = {"role": "assistant", "content": text}
            case ReasoningChunk(text):
                message = {"role": "assistant", "content": "", "thinking": text}
            case ToolCallChunk():
                message = {"role": "assistant", "content": "", "tool_calls": [self._call(chunk)]}
        yield self._line(message, done=False)

    def end(self, reason: Reason, completion_tokens: int) -> bytes:
        """Return the ``done`` line with the counts; Ollama refuses no content."""
        message = {"role": "assistant", "content": ""}
        return self._line(message, done=True, **self._metrics(completion_tokens, reason))

    def error(self, message: str) -> bytes:
        """Return an error line."""
        return error_body(message) + b"\n"

    def whole(self, chunks: Sequence[Chunk], completion_tokens: int) -> bytes:
        """Return everything in one message."""
        message: dict[str, Any] = {"role": "assistant", "content": joined(chunks, TextChunk)}
        if thinking := joined(chunks, ReasoningChunk):
            message["thinking"] = thinking
        calls = [self._call(chunk) for chunk in chunks if isinstance(chunk, ToolCallChunk)]
        if calls:
            message["tool_calls"] = calls
        return self._line(message, done=True, **self._metrics(completion_tokens)).rstrip()

    def _call(self, chunk: ToolCallChunk) -> dict[str, Any]:
        function = {"index": self._calls, "name": chunk.name, "arguments": chunk.arguments}
        self._calls += 1
        return {"id": chunk.id, "function": function}

    def _line(self, message: Mapping[str, Any], **rest: Any) -> bytes:
        line = {"model": self._model, "created_at": timestamp(), "message": message, **rest}
        return encode(line) + b"\n"

    def _metrics(self, completion_tokens: int, reason: Reason = "stop") -> dict[str, Any]:
        passed = time.monotonic_ns() - self._started
        metrics = {
            "total_duration": passed,
            "load_duration": 1_000_000,
            "prompt_eval_count": self._prompt_tokens,
            "prompt_eval_duration": 1_000_000,
            "eval_count": completion_tokens,
            "eval_duration": passed,
        }
        # The metrics are `omitempty` in Go: zero is left out.
        counted = {name: value for name, value in metrics.items() if value}
        return {"done_reason": "length" if reason == "length" else "stop", **counted}


def _list(value: Any, field: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise Refused(400, f"json: cannot unmarshal value into Go struct field ChatRequest.{field}")
    return value or []


def _message(item: Any) -> RequestMessage:
    field = "Go struct field ChatRequest.messages"
    if not isinstance(item, dict):
        raise Refused(400, f"json: cannot unmarshal value into {field} of type api.Message")
    content = item.get("content")
    if isinstance(content, list):
        raise Refused(400, f"json: cannot unmarshal array into {field}.content of type string")
    for call in _list(item.get("tool_calls"), "messages.tool_calls"):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("arguments"), dict):
            raise Refused(400, "Value looks like object, but can't find closing '}' symbol")
    images = _list(item.get("images"), "messages.images")
    try:
        if not all(isinstance(image, str) and not image.startswith("data:") for image in images):
            raise Refused(400, "illegal base64 data at input byte 4")  # no URLs of any kind
        text = with_files(content if isinstance(content, str) else "", images)
    except ValueError as error:
        raise Refused(400, str(error)) from error
    return RequestMessage(str(item.get("role", "")), text)


def _check_abilities(card: ModelCard, body: Mapping[str, Any]) -> None:
    if body.get("tools") and "tools" not in card.capabilities:
        raise Refused(400, f"registry.ollama.ai/library/{card.name} does not support tools")
    if body.get("think") and "thinking" not in card.capabilities:
        raise Refused(400, f'"{body["model"]}" does not support thinking')
    if "vision" in card.capabilities or not any(
        item.get("images") for item in body.get("messages") or ()
    ):
        return
    words = "Multimodal data provided, but model does not support multimodal requests."
    raise Refused(400, encode({"error": {"code": 400, "message": words}}).decode())


def _check_options(options: Any) -> None:
    if not isinstance(options, dict):
        wanted = "Go struct field ChatRequest.options of type map[string]interface {}"
        raise Refused(400, f"json: cannot unmarshal value into {wanted}")
    for names, kind in ((INTEGER_OPTIONS, "integer"), (FLOAT_OPTIONS, "float32")):
        for name in names:
            value = options.get(name)
            # A float passes for an integer: to Go's decoder all JSON numbers are floats.
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int | float)
            ):
                raise Refused(500, f'option "{name}" must be of type {kind}')


def _check_window(request: ChatRequest) -> None:
    tokens, window = request.prompt_tokens, request.context_window
    if window is None or tokens <= window:
        return
    text = (
        f"request ({tokens} tokens) exceeds the available context size ({window} tokens), "
        "try increasing it"
    )
    error = {
        "code": 400,
        "message": text,
        "type": "exceed_context_size_error",
        "n_prompt_tokens": tokens,
        "n_ctx": window,
    }
    # A real server passes its runner's JSON on as a string: the client has to look inside.
    raise Refused(400, msgspec.json.encode({"error": error}).decode())
