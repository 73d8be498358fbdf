"""Builds the tool result of an agent's run. Pure."""

from collections.abc import Sequence

import msgspec

from sessions_app.errors import MochiError
from sessions_app.messages import AssistantMessage, Attachment, Message, ToolMessage
from sessions_app.variants import answer_start
from tools_app.output_limit import cut_middle

MOST_ATTACHMENTS = 20


def output_of(session_id: str, messages: Sequence[Message], error: MochiError | None = None) -> str:
    """Return everything that happened since the instruction, after the session's id.

    Of more than 64 KiB the middle is left out: how a long run ends matters more.

    Args:
        session_id: The agent's session, in which it can be called again.
        messages: All messages of that session.
        error: The error that interrupted the run, if any.
    """
    parts = [part for message in messages[answer_start(messages) :] for part in _rendered(message)]
    if error is not None:
        parts.append(f"[The agent stopped: {error.message}]")
    return f"Session ID: {session_id}\n\n" + cut_middle("\n\n".join(parts))


def attachments_of(messages: Sequence[Message]) -> tuple[Attachment, ...]:
    """Return the images and files that the agent's tools returned since the instruction.

    Returns the last ones if there are very many, in order.

    Args:
        messages: All messages of the agent's session.
    """
    found: dict[str, Attachment] = {}
    for message in messages[answer_start(messages) :]:
        if isinstance(message, ToolMessage):
            for attachment in message.attachments:
                found.pop(attachment.id, None)
                found[attachment.id] = attachment
    return tuple(found.values())[-MOST_ATTACHMENTS:]


def _rendered(message: Message) -> list[str]:
    if isinstance(message, AssistantMessage):
        calls = [
            f"[tool call] {call.name}({msgspec.json.encode(call.arguments).decode()})"
            for call in message.tool_calls
        ]
        return [message.content, *calls] if message.content else calls
    if isinstance(message, ToolMessage):
        return [f"[tool result] {message.tool_name}: {message.content}"]
    return []
