"""Converts the messages of a session to AG-UI's. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dialects_app.ag_ui.calls import ResumedCalls, attachments_of, result_id
from dialects_app.ag_ui.text_events import reasoning_id
from dialects_app.shared.shown_calls import arguments_text, shown_call
from dialects_app.shared.turn_output import without_output
from sessions_app.calls import open_calls, pair_calls, results_of
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    as_it_ran,
    result_content,
    unmark_cancelled,
)
from sessions_app.variants import answer_start

PROVIDER = "mochi"
"""Of files: the name of who keeps them, by the ids that ``/attachments`` knows."""

_IMAGE = "image/"


def shown_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages in AG-UI's form, with the ids used in streams.

    System prompts belong to the server and are left out.
    """
    shown: list[dict[str, Any]] = []
    paired = pair_calls(messages)
    for index, message in enumerate(paired):
        match message:
            case UserMessage():
                shown.append(
                    {"id": message.message_id, "role": "user", "content": _content(message)}
                )
            case AssistantMessage():
                ran = zip(message.tool_calls, results_of(paired, index), strict=True)
                shown += _answer(message, [as_it_ran(call, result) for call, result in ran])
            case ToolMessage() if message.message_id:  # else it was made up just now
                shown.append(_result(message, message.tool_call_id or ""))
            case SystemMessage() | ToolMessage():
                pass
    return shown


def before_turn(messages: Sequence[Message], turn_id: str) -> Sequence[Message]:
    """Return the messages before a running turn, including those that started it.

    An answer that the turn regenerates is left out, as is the output of the turn itself.
    """
    before = without_output(messages, turn_id)
    last = before[-1] if before else None
    began_with_something = any(message.turn_id == turn_id for message in before)
    if began_with_something or not isinstance(last, AssistantMessage) or open_calls(before):
        return before
    return before[: answer_start(before)]


def resumed_by(
    messages: Sequence[Message], turn_id: str, *, client_calls: frozenset[str] | None = None
) -> ResumedCalls:
    """Return calls of earlier turns that a turn runs.

    Args:
        messages: The messages of the session, during the turn or before it.
        turn_id: The turn; empty before it.
        client_calls: The calls that the client has; None for all of them.
    """
    before = without_output(messages, turn_id)
    calls: Mapping[str, ToolCall] = {
        call.id: call for call in open_calls(before) if not call.client_side
    }
    if not calls:
        return ResumedCalls()
    asking = next(each for each in reversed(before) if isinstance(each, AssistantMessage))
    return ResumedCalls(
        asking_id=asking.message_id,
        calls=calls,
        known=frozenset(calls) if client_calls is None else client_calls & calls.keys(),
    )


def _answer(message: AssistantMessage, calls: Sequence[ToolCall]) -> Iterator[dict[str, Any]]:
    if message.thinking:
        yield {
            "id": reasoning_id(message.message_id),
            "role": "reasoning",
            "content": message.thinking,
        }
    shown: dict[str, Any] = {
        "id": message.message_id,
        "role": "assistant",
        "content": unmark_cancelled(message.content),
    }
    if calls:
        shown["toolCalls"] = [_call(call) for call in calls]
    about = {
        "model": message.model or None,
        "turnId": message.turn_id,
        "cancelled": message.cancelled or None,
        "interrupted": message.interrupted or None,
    }
    shown["metadata"] = {name: value for name, value in about.items() if value is not None}
    yield shown


def _call(call: ToolCall) -> dict[str, Any]:
    shown = shown_call(call)
    function = {"name": shown.name, "arguments": arguments_text(shown.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _result(message: ToolMessage, call_id: str) -> dict[str, Any]:
    content = result_content(message)
    shown: dict[str, Any] = {
        "id": result_id(call_id),
        "role": "tool",
        "toolCallId": call_id,
        "content": content,
    }
    if message.failed:
        shown["error"] = content
    if message.attachments:
        shown["metadata"] = {"attachments": attachments_of(message.attachments)}
    return shown


def _content(message: UserMessage) -> Any:
    if not message.attachments:
        return message.content
    texts = [{"type": "text", "text": message.content}] if message.content else []
    return [*texts, *map(_part, message.attachments)]


def _part(attachment: Attachment) -> dict[str, Any]:
    return {
        "type": "image" if attachment.media_type.startswith(_IMAGE) else "document",
        "source": {
            "type": "file",
            "value": attachment.id,
            "provider": PROVIDER,
            "mimeType": attachment.media_type,
        },
        "metadata": msgspec.to_builtins(attachment),
    }
