"""Defines the chunks of a UI message stream, protocol version 1. Pure.

The source of names and order is ``uiMessageChunkSchema`` of the npm package ``ai``, 7.0.173. A
chunk of an unknown type, or for a part that was not started, makes the client throw.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from chat.stream.encoding import ascii_json
from sessions_app.messages import Attachment

STREAM_VERSION = {"x-vercel-ai-ui-message-stream": "v1"}
"""The header of a stream."""

DONE = "data: [DONE]\n\n"

FINISH_REASONS = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_calls": "tool-calls",
    None: "stop",
}
"""The client's names of why a model stopped; other reasons are ``other``."""


def message_id_of(turn_id: str) -> str:
    """Return the client's message id for a turn's answer."""
    return f"turn-{turn_id}"


def chunk(kind: str, **fields: Any) -> str:
    """Return an encoded chunk without fields that are None."""
    given = {name: value for name, value in fields.items() if value is not None}
    return f"data: {ascii_json({'type': kind, **given})}\n\n"


def tool_chunk(kind: str, call_id: str, **fields: Any) -> str:
    """Return a chunk for a call that runs on the server, as a dynamic tool."""
    return chunk(kind, toolCallId=call_id, **fields, providerExecuted=True, dynamic=True)


def attachment_url(attachment_id: str) -> str:
    """Return the URL of an image or a file, relative to the server's origin."""
    return f"/api/v1/attachments/{attachment_id}"


def file_part(attachment: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attachment as a ``file`` part, without its type."""
    return {"mediaType": attachment["media_type"], "url": attachment_url(attachment["id"])}


def user_data(message_id: str, text: str, files: Sequence[Attachment]) -> dict[str, Any]:
    """Return a message that a user sent while the turn ran, as a part's id and data."""
    shown = [{"type": "file", **file_part(msgspec.to_builtins(each))} for each in files]
    parts = [*([{"type": "text", "text": text}] if text else []), *shown]
    return {"id": message_id, "data": {"message_id": message_id, "parts": parts}}
