"""Finds the new messages in a run's input, which its session does not have yet. Pure.

The session is authoritative: of the client's history only the ids of answers are read, to check
that the client knows the current session.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from chat.start.preparation import given_up_result
from chat.start.turn_request import TurnRequest
from dialects_app.ag_ui.body import PropsIn, RunIn, ToolIn
from dialects_app.ag_ui.content import read_content
from dialects_app.errors import ChatDiffers
from dialects_app.shared.body import convert_body
from dialects_app.shared.fields import refuse
from dialects_app.shared.files import GivenFile
from sessions_app.calls import open_calls
from sessions_app.errors import ValidationFailed
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

_MESSAGE = re.compile(r"messages\[(\d+)\]")
_IS_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII).fullmatch
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_ROLES = frozenset({"user", "assistant", "tool", "system", "developer", "reasoning", "activity"})
_DIFFERS = "The answers in this thread are not those that were sent."
_INSTRUCTING = frozenset({"system", "developer"})


class ClientInput(msgspec.Struct, frozen=True, kw_only=True):
    """The new input of a client in a run.

    Attributes:
        messages: The new messages: those of the user, and results of the client's tools.
        files: The images and files of these messages, which must be stored first.
        paths: The paths of these messages in the request.
        again: Whether the last answer is to be regenerated.
    """

    messages: Sequence[Message] = ()
    files: Sequence[GivenFile] = ()
    paths: Sequence[str] = ()
    again: bool = False

    @property
    def has_user_message(self) -> bool:
        """Return whether there is a user message."""
        return any(isinstance(message, UserMessage) for message in self.messages)


def read_new_input(
    messages: Sequence[Mapping[str, Any]], history: Sequence[Message], *, runs: bool = False
) -> ClientInput:
    """Return the client's input that its session does not have.

    Args:
        messages: The client's copy of the conversation.
        history: The messages of the session.
        runs: Whether a turn runs, whose output is not in ``history``; the client may have some.

    Raises:
        ChatDiffers: The client has answers that the session does not have, or lacks some.
        ValidationFailed: A message is invalid, or a result belongs to no open call.
    """
    for index, message in enumerate(messages):
        if message.get("role") not in _ROLES:
            refuse(f"messages.{index}.role", f"A role is one of {', '.join(sorted(_ROLES))}.")
    answers = [index for index, each in enumerate(messages) if _is_answer(each)]
    begin = answers[-1] + 1 if answers else 0
    known = {each.message_id: index for index, each in enumerate(history)}
    shown = [messages[index] for index in answers]
    if runs:
        shown = [each for each in shown if each.get("id") in known]
    last = _last_known(shown, history, known)
    last_said = next((each for each in reversed(messages) if each.get("role") == "user"), None)
    if last_said is not None and last_said.get("id") in known and messages[-1] is last_said:
        return _regenerate(known[last_said["id"]], history)
    if answers:
        _require_seen(history[last + 1 :])
    new: list[Message] = []
    files: list[GivenFile] = []
    paths: list[str] = []
    calls = _Calls(history)
    for index, message in enumerate(messages[begin:], begin):
        path = f"messages.{index}"
        if message["role"] == "user" and message.get("id") not in known:
            text, attached = read_content(message.get("content"), f"{path}.content")
            new.append(_user_message(message.get("id"), text, attached))
            files += attached
            paths.append(path)
        elif message["role"] == "tool" and not message.get("subagentRunId"):
            result = _result(message, calls, path)
            if result is not None:
                new.append(result)
                paths.append(path)
    return ClientInput(messages=new, files=files, paths=paths)


def greeting_in(messages: Sequence[Mapping[str, Any]]) -> Sequence[AssistantMessage]:
    """Return the answers before the user's first message, with which a client begins a thread."""
    before = itertools.takewhile(lambda each: each.get("role") != "user", messages)
    return [
        AssistantMessage(content=content, message_id=name, timestamp=utc_now())
        for each in before
        if _is_answer(each)
        and isinstance(content := each.get("content"), str)
        and isinstance(name := each.get("id"), str)
        and _IS_ID(name)
        and not each.get("toolCalls")
    ]


def give_up_calls(messages: Sequence[Message], history: Sequence[Message]) -> Sequence[Message]:
    """Return the input with a result for each client call that was not run.

    So a user can send a message instead of letting a tool run.
    """
    answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
    lost = [
        given_up_result(call)
        for call in open_calls(history)
        if call.client_side and call.id not in answered
    ]
    return [*lost, *messages] if lost else messages


def place_of_message(field: str, messages: Sequence[Message], new_input: ClientInput) -> str:
    """Return the path in the request of a field, which may be one of the turn's messages.

    Args:
        field: The field.
        messages: The turn's messages.
        new_input: The input, with the paths of its messages.
    """
    match = _MESSAGE.match(field)
    if match is None:
        return field
    name = messages[int(match[1])].message_id
    pairs = zip(new_input.messages, new_input.paths, strict=True)
    places = {each.message_id: path for each, path in pairs}
    return places.get(name, "messages")


def read_props(body: RunIn) -> PropsIn:
    """Return the client's properties.

    Raises:
        ValidationFailed: A supported key has an invalid value.
    """
    if not isinstance(body.forwarded_props, dict):
        return PropsIn()
    try:
        return convert_body(body.forwarded_props, PropsIn)
    except ValidationFailed as error:
        error.details["field"] = f"forwardedProps.{error.details['field']}"
        raise


def read_turn(body: RunIn, props: PropsIn) -> TurnRequest:
    """Return the request for a turn, without its messages."""
    return TurnRequest(
        dialect="ag_ui",
        think=props.think,
        selected_tools=props.selected_tools,
        detached=props.detached is not False,
        approvals="suspend",
        instructions=_instructions(body),
        client_tools=[_tool(tool, index) for index, tool in enumerate(body.tools or ())],
    )


def _is_answer(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant" and not message.get("subagentRunId")


def _last_known(
    answers: Sequence[Mapping[str, Any]], history: Sequence[Message], places: Mapping[str, int]
) -> int:
    """Return the index of the last answer that the client has; -1 without any."""
    last = -1
    for answer in answers:
        place = places.get(str(answer.get("id")), -1)
        if place <= last or not isinstance(history[place], AssistantMessage):
            raise ChatDiffers(_DIFFERS)
        last = place
    return last


def _require_seen(later: Sequence[Message]) -> None:
    """Raise ``ChatDiffers`` if the client lacks complete answers."""
    if any(isinstance(message, AssistantMessage) and message.is_complete for message in later):
        raise ChatDiffers(_DIFFERS)


def _regenerate(place: int, history: Sequence[Message]) -> ClientInput:
    """Return input that regenerates the answer to a message, which must be the last one."""
    if any(isinstance(message, UserMessage) for message in history[place + 1 :]):
        raise ChatDiffers(_DIFFERS)
    return ClientInput(again=True)


def _user_message(name: Any, text: str, files: Sequence[GivenFile]) -> UserMessage:
    """Return a message with the client's id, by which the client recognizes it later."""
    is_id = isinstance(name, str) and _IS_ID(name) is not None
    return UserMessage(
        content=text,
        attachments=tuple(file.placeholder() for file in files),
        message_id=name if is_id else new_message_id(),
        timestamp=utc_now(),
    )


class _Calls:
    """The calls of a session, open and completed."""

    def __init__(self, history: Sequence[Message]) -> None:
        self.waiting = {call.id: call for call in open_calls(history)}
        self.answered = {each.tool_call_id for each in history if isinstance(each, ToolMessage)}


def _result(message: Mapping[str, Any], calls: _Calls, path: str) -> ToolMessage | None:
    """Return the result of a client call; None if the session has it."""
    call_id = message.get("toolCallId")
    if not isinstance(call_id, str):
        refuse(f"{path}.toolCallId", "A text is wanted here.")
    call = calls.waiting.get(call_id)
    if call is None and call_id in calls.answered:
        return None
    if call is None or not call.client_side:
        refuse(f"{path}.toolCallId", "No call of a tool that the client runs has this id.")
    text, files = read_content(message.get("content"), f"{path}.content")
    if files:
        refuse(f"{path}.content", "The result of a client's tool is a text.")
    error = message.get("error")
    return ToolMessage(
        content=text if text or not isinstance(error, str) else f"Error: {error}",
        message_id=new_message_id(),
        timestamp=utc_now(),
        tool_name=call.name,
        tool_call_id=call_id,
        failed=isinstance(error, str),
    )


def _instructions(body: RunIn) -> str | None:
    """Return the instructions of the application: its system messages and the context."""
    texts = [
        str(message["content"])
        for message in body.messages
        if message.get("role") in _INSTRUCTING and message.get("content")
    ]
    told = [f"- {each.description}: {each.value}" for each in body.context or ()]
    if told:
        texts.append("\n".join(["Context that the application gives:", *told]))
    return "\n\n".join(texts) or None


def _tool(tool: ToolIn, index: int) -> ToolSpec:
    if _IS_ID(tool.name) is None:
        refuse(f"tools.{index}.name", "A tool's name has 1 to 64 letters, digits, '_' and '-'.")
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        parameters=tool.parameters or _NO_PARAMETERS,
    )
