"""Encodes requests in Ollama's chat protocol. Pure."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from models_app.language_model import ModelRequest, Think
from models_app.ollama.inventory import is_cloud
from models_app.tool_schemas import inline_all
from sessions_app.messages import (
    NO_EXTRA,
    AssistantMessage,
    Attachment,
    Message,
    ToolMessage,
    ToolSpec,
    UserMessage,
    unmark_cancelled,
)

_OTHERS_OPTIONS = frozenset(
    ["max_tokens", "thinking_budget", "reasoning_effort", "cache", "verbosity", "service_tier"]
)
"""Options of other providers; of these, Ollama has ``max_tokens`` by another name."""
_OLLAMA_LEVELS: Mapping[Think, Think] = {"minimal": "low", "xhigh": "max"}
"""The levels in the place of those that Ollama does not have."""


def encode_request(request: ModelRequest, context_window: int | None) -> bytes:
    """Return the body of ``POST /api/chat`` for a request, with this context window."""
    return encode_body(
        chat_body(
            model=request.model,
            messages=wire_messages(request.messages, request.files),
            tools=wire_tools(request.tools),
            think=request.think,
            context_window=context_window,
            options=request.options,
            answer_schema=request.answer_schema,
        )
    )


def chat_body(
    *,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    think: Think | None = None,
    context_window: int | None = None,
    options: Mapping[str, Any] | None = None,
    answer_schema: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the body of a streaming chat request, as a JSON-compatible dict.

    ``truncate`` is off: an overflow is then an error that can be acted upon, where Ollama would
    otherwise drop the oldest messages without a word. ``shift`` is off, too: an answer that comes
    to the end of the window then ends with ``length``, where Ollama would otherwise drop the
    system prompt and the question, and go on.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "truncate": False,
        "shift": False,
    }
    if tools:
        body["tools"] = tools
    if think is not None:
        body["think"] = _level(model, think)
    if answer_schema is not None:
        body["format"] = answer_schema
    settings = _ollama_options(options) if options else {}
    if (keep_alive := settings.pop("keep_alive", None)) is not None:
        body["keep_alive"] = keep_alive
    if context_window is not None:
        settings["num_ctx"] = context_window
    if is_cloud(model):  # its window is the largest that it has
        settings.pop("num_ctx", None)
    if settings:
        body["options"] = settings
    return body


def _level(model: str, think: Think) -> Think:
    """Return whether and how hard to think in Ollama's words; gpt-oss knows no ``max``."""
    level = _OLLAMA_LEVELS.get(think, think)
    is_gpt_oss = model.rpartition("/")[2].startswith("gpt-oss")
    return "high" if level == "max" and is_gpt_oss else level


def _ollama_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that Ollama knows, by its names; it ignores others without a word."""
    known = {name: value for name, value in options.items() if name not in _OTHERS_OPTIONS}
    if (longest := options.get("max_tokens")) is not None:
        known.setdefault("num_predict", longest)
    return known


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Return a body as JSON bytes."""
    try:
        return _encoder.encode(body)
    except UnicodeEncodeError:
        # A lone surrogate (a tool can return one) has no UTF-8, but it has an escape, which
        # Ollama reads as U+FFFD.
        return json.dumps(body, default=_plain).encode("ascii")


def wire_messages(
    messages: Sequence[Message], files: Mapping[str, bytes] = NO_EXTRA
) -> list[dict[str, Any]]:
    """Return the conversation in Ollama's form, oldest first, with the images among ``files``.

    Reasoning is sent back only within the running tool round: a model needs it to go on from its
    own calls, and older reasoning only costs context. Answers without text and calls (cancelled
    before the first word) are left out.
    """
    wired, in_running_round = list[dict[str, Any]](), True
    for message in reversed(messages):
        # Nearly all are plain text, and a history can have thousands: no call for those.
        if type(message) is ToolMessage:
            wired.append(_wire_tool_result(message, files))
        elif type(message) is AssistantMessage and (
            message.tool_calls or message.cancelled or not message.content
        ):
            entry = _wire_assistant(message, with_thinking=in_running_round)
            if entry is not None:
                wired.append(entry)
        else:
            wired.append({"role": message.role, "content": message.content})
            if type(message) is UserMessage:
                in_running_round = False
                if message.attachments:
                    wired[-1] |= _images(message.attachments, files)
    wired.reverse()
    return wired


def wire_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Return tools in Ollama's form."""
    inlined = inline_all(tool.parameters for tool in tools)
    functions = [
        {"name": tool.name, "description": tool.description, "parameters": parameters}
        for tool, parameters in zip(tools, inlined, strict=True)
    ]
    return [{"type": "function", "function": function} for function in functions]


def _wire_assistant(message: AssistantMessage, *, with_thinking: bool) -> dict[str, Any] | None:
    content = unmark_cancelled(message.content) if message.cancelled else message.content
    if not content and not message.tool_calls:
        return None
    entry: dict[str, Any] = {"role": "assistant", "content": content}
    if message.tool_calls:
        if with_thinking and message.thinking:
            entry["thinking"] = message.thinking
        entry["tool_calls"] = [
            {
                "id": call.id,
                "function": {"index": index, "name": call.name, "arguments": dict(call.arguments)},
            }
            for index, call in enumerate(message.tool_calls)
        ]
    return entry


def _wire_tool_result(message: ToolMessage, files: Mapping[str, bytes]) -> dict[str, Any]:
    entry = {"role": "tool", "content": message.content, "tool_name": message.tool_name}
    if message.tool_call_id is not None:
        entry["tool_call_id"] = message.tool_call_id
    return {**entry, **_images(message.attachments, files)} if message.attachments else entry


def _images(attachments: Sequence[Attachment], files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return images in bare base64: Ollama refuses data URLs."""
    found = [base64.b64encode(files[one.id]).decode() for one in attachments if one.id in files]
    return {"images": found} if found else {}


def _plain(value: Any) -> Any:
    """Convert frozen mappings and sequences to JSON's."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
