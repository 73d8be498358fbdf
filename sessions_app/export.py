"""Renders a session as Markdown. Pure."""

import json
import re
from bisect import bisect

from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sessions_app.session import Session

LONGEST_FENCE = 100
"""The maximum backticks around a code block."""

_LONG_FENCE = re.compile("`" * LONGEST_FENCE + "`*+")
_END_OF_LINE = re.compile(r"[ \t]*+(?![^\r\n])")


def to_markdown(session: Session) -> str:
    """Render the conversation: title, summary, and every message under a heading.

    Texts of messages are not escaped, because most of them are Markdown already.
    """
    metadata = session.metadata
    parts = [
        f"# Session {metadata.session_id}",
        (
            f"- Model: {metadata.model}\n- Created: {metadata.created_at}\n"
            f"- Updated: {metadata.updated_at}\n- Messages: {len(session.messages)}"
        ),
    ]
    summary = (metadata.summary or {}).get("summary")
    if isinstance(summary, str):
        parts.append(f"> {' '.join(summary.split())}")
    for message in session.messages:
        parts += [_heading(message), *_body(message)]
    return "\n\n".join(parts) + "\n"


def _heading(message: Message) -> str:
    match message:
        case UserMessage():
            name = "User"
        case SystemMessage():
            name = f"System ({message.source_file})" if message.source_file else "System"
        case AssistantMessage():
            name = f"Assistant ({message.model})" if message.model else "Assistant"
        case ToolMessage():
            name = f"Tool ({message.tool_name})"
    return f"## {name}\n\n_{message.timestamp}_"


def _body(message: Message) -> list[str]:
    attached = []
    if isinstance(message, UserMessage | ToolMessage):
        attached = [_attached(one) for one in message.attachments]
    if isinstance(message, ToolMessage):
        return [fenced(message.content), *attached]
    parts = []
    if isinstance(message, AssistantMessage):
        if message.thinking:
            thoughts = message.thinking.strip().replace("\n", "\n> ")
            parts.append(f"> {thoughts}")
        parts += [message.content] if message.content else []
        parts += [_call(call) for call in message.tool_calls]
        if message.interrupted:
            parts.append("_(interrupted)_")
        return parts
    return [part for part in (message.content, *attached) if part]


def _attached(attachment: Attachment) -> str:
    size = f", {attachment.width} x {attachment.height}" if attachment.width else ""
    return (
        f"_Attached: {_escaped(attachment.name)} ({attachment.media_type}, "
        f"{attachment.size:,} bytes{size})_"
    )


def _escaped(name: str) -> str:
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", name)


def _call(call: ToolCall) -> str:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False, indent=2)
    return f"Calls `{call.name}`:\n\n{fenced(arguments, 'json')}"


def fenced(text: str, language: str = "") -> str:
    """Put the text in a code block whose fence is longer than any in the text.

    A fence is bounded, though: where the text has longer ones, they are indented, so that they do
    not end the block. A file of nothing but backticks would be sent three times otherwise.
    """
    sizes = range(3, LONGEST_FENCE)
    fence = "`" * (3 + bisect(sizes, 0, key=lambda size: "`" * size not in text))
    if len(fence) == LONGEST_FENCE:
        text = _LONG_FENCE.sub(_indented, text)
    return f"{fence}{language}\n{text}\n{fence}"


def _indented(fence: re.Match[str]) -> str:
    """Return a fence so that it ends no block: only one after at most three blanks does."""
    text, start = fence.string, fence.start()
    before = text[max(start - 4, 0) : start].rstrip(" ")
    begins_line = before[-1] in "\r\n" if before else start < 4
    ends_block = begins_line and _END_OF_LINE.match(text, fence.end())
    return f"    {fence[0]}" if ends_block else fence[0]
