"""Encodes conversations as JSON, as the GenAI conventions define it. Pure.

Spans are sent to another server and stored there, so long conversations are cut to their newest
messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    SystemMessage,
    ToolMessage,
)
from sessions_app.surrogates import mend_json

LONGEST_TEXT = 16_384
LONGEST_CONVERSATION = 131_072
"""In characters of a text, and in bytes of all messages of a span."""


def instructions_of(messages: Iterable[Message]) -> str | None:
    """Return the system prompts of a request; None without any."""
    parts = [_text(each.content) for each in messages if isinstance(each, SystemMessage)]
    return _json(parts) if parts else None


def conversation(messages: Sequence[Message]) -> str | None:
    """Return the newest messages that fit, without system prompts; None without any."""
    kept: list[str] = []
    size = 0
    for message in reversed(messages):
        if isinstance(message, SystemMessage):
            continue
        encoded = _json(_message(message))
        size += len(encoded)
        if kept and size > LONGEST_CONVERSATION:
            break
        kept.append(encoded)
    return f"[{','.join(reversed(kept))}]" if kept else None


def answer(message: AssistantMessage) -> str:
    """Return the answer of a turn."""
    return _json([{**_message(message), "finish_reason": message.done_reason or "stop"}])


def arguments_of(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a tool call."""
    return _cut(_json(arguments))


def result_text(text: str) -> str:
    """Return the result of a tool call."""
    return _cut(text)


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": _parts(message)}


def _parts(message: Message) -> list[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        response = {
            "type": "tool_call_response",
            "id": message.tool_call_id,
            "response": _cut(message.content),
        }
        return [response, *map(_file, message.attachments)]
    parts: list[dict[str, Any]] = []
    if isinstance(message, AssistantMessage):
        if message.thinking:
            parts.append({"type": "reasoning", "content": _cut(message.thinking)})
        if message.content:
            parts.append(_text(message.content))
        parts += [
            {
                "type": "tool_call",
                "id": call.id,
                "name": call.name,
                "arguments": _cut(_json(call.arguments)),
            }
            for call in message.tool_calls
        ]
        return parts
    return [_text(message.content), *map(_file, message.attachments)]


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": _cut(content)}


def _file(attachment: Attachment) -> dict[str, Any]:
    """Return a file's metadata, without its content."""
    return {"type": "file", "mime_type": attachment.media_type, "file_id": attachment.id}


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(mend_json(value), enc_hook=str).decode()
