"""Converts a session to AI SDK messages: one for each user message, one for each answer. Pure.

An answer with tools is several messages in a session and one message of the client, with the same
parts as built by the stream of its turn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dialects_app.ai_sdk.chunks import file_part, message_id_of, user_data
from dialects_app.shared.shown_calls import FAILED, shown_call
from sessions_app.calls import distinct_calls
from sessions_app.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    as_it_ran,
    result_content,
    unmark_cancelled,
)
from tools_app.errors import EXECUTION_DENIED

CLIENT_ID = "client_id"
"""The key of a message with the id that the client made for it."""


class UIMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the AI SDK.

    Attributes:
        id: The client's id of a user message, ``turn-<turn id>`` for an answer.
        role: ``user``, ``assistant`` or ``system``.
        parts: Its parts.
        metadata: The model and the usage of an answer.
    """

    id: str
    role: str
    parts: Sequence[Mapping[str, Any]]
    metadata: Mapping[str, Any]


class UIMessagesOut(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a chat."""

    id: str
    messages: Sequence[UIMessage]


class _Answer:
    """Gathers the messages of one answer."""

    def __init__(self, session_id: str, first: Message) -> None:
        turn_id = first.turn_id
        self.id = message_id_of(turn_id) if turn_id else client_id_of(first)
        self.parts: list[dict[str, Any]] = []
        self.metadata: dict[str, Any] = {"session_id": session_id}
        self.calls: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, ToolCall] = {}

    def take(self, message: AssistantMessage | ToolMessage, questions: Mapping[str, str]) -> None:
        if isinstance(message, ToolMessage):
            self._end_call(message)
            return
        self.metadata |= {"model": message.model, "message_id": message.message_id}
        if message.usage is not None:
            self.metadata["usage"] = msgspec.to_builtins(message.usage)
        self.parts.append({"type": "step-start"})
        if message.thinking:
            self.parts.append({"type": "reasoning", "text": message.thinking, "state": "done"})
        text = unmark_cancelled(message.content) if message.cancelled else message.content
        if text:
            self.parts.append({"type": "text", "text": text, "state": "done"})
        for call in message.tool_calls:
            self._call(call, questions.get(call.id))

    def message(self) -> UIMessage:
        return UIMessage(id=self.id, role="assistant", parts=self.parts, metadata=self.metadata)

    def _call(self, call: ToolCall, confirmation_id: str | None) -> None:
        shown = shown_call(call)
        part: dict[str, Any] = {
            "type": "dynamic-tool",
            "toolName": shown.name,
            "toolCallId": call.id,
            "state": "input-available",
            "input": shown.arguments,
            "providerExecuted": True,
        }
        if confirmation_id is not None:
            part |= {"state": "approval-requested", "approval": {"id": confirmation_id}}
        self.asked[call.id] = call
        self.calls[call.id] = part
        self.parts.append(part)

    def _end_call(self, result: ToolMessage) -> None:
        part = self.calls.get(result.tool_call_id or "")
        if part is None:
            return
        if result.arguments is not None:
            ran = as_it_ran(self.asked[part["toolCallId"]], result)
            part["input"] = shown_call(ran).arguments
        if result.error_code == EXECUTION_DENIED:
            # Older servers forgot who was asked, and the client wants an id.
            asked = result.confirmation_id or result.tool_call_id
            approval = {"id": asked, "approved": False}
            part |= {"state": "output-denied", "approval": approval}
        elif result.failed:
            # The model is told so; the page has the state.
            error = result_content(result).removeprefix(FAILED)
            part |= {"state": "output-error", "errorText": error}
        else:
            part |= {"state": "output-available", "output": result_content(result)}
        self.parts += _files(result)


def ui_messages(
    session_id: str, messages: Sequence[Message], questions: Mapping[str, str]
) -> Sequence[UIMessage]:
    """Return the messages of a session in the client's form, without the system prompt.

    Args:
        session_id: The session.
        messages: Its messages.
        questions: The pending confirmations, by call id.
    """
    shown: list[UIMessage] = []
    answer: _Answer | None = None
    for message in distinct_calls(messages):
        if isinstance(message, AssistantMessage | ToolMessage):
            answer = answer or _Answer(session_id, message)
            answer.take(message, questions)
            continue
        if (
            answer is not None
            and isinstance(message, UserMessage)
            and answer.id == message_id_of(message.turn_id or "")
        ):
            data = user_data(message.message_id, message.content, message.attachments)
            answer.parts.append({"type": "data-user-message", **data})
            continue
        if answer is not None:
            shown.append(answer.message())
            answer = None
        if isinstance(message, UserMessage):
            shown.append(_user_message(message))
    if answer is not None:
        shown.append(answer.message())
    return shown


def client_id_of(message: Message) -> str:
    """Return the client's id of a user message or a greeting."""
    given = message.extra.get(CLIENT_ID)
    return given if isinstance(given, str) else message.message_id


def _user_message(message: UserMessage) -> UIMessage:
    text = [{"type": "text", "text": message.content}] if message.content else []
    return UIMessage(
        id=client_id_of(message),
        role="user",
        parts=[*text, *_files(message)],
        metadata={"message_id": message.message_id},
    )


def _files(message: UserMessage | ToolMessage) -> list[dict[str, Any]]:
    return [
        {"type": "file", **file_part(msgspec.to_builtins(each)), "filename": each.name}
        for each in message.attachments
    ]
