"""Decides how a turn continues a conversation, and prepares its history for a model. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from chat.errors import MissingToolResult
from sessions_app.calls import open_calls, pair_calls
from sessions_app.errors import ValidationFailed
from sessions_app.format.message_format import message_to_json
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    unmark_cancelled,
)
from sessions_app.variants import answer_start


class Continuation(msgspec.Struct, frozen=True):
    """Describes how a turn continues the history.

    Attributes:
        keep: How many messages the model is sent; what comes after them is replaced.
        append: Whether the request's message is appended (it may stand there already).
        replaced_id: The first message of the answer that is made again. It stays until a message
            of the new one is saved.
        open_calls: Tool calls that were asked for and never answered; they run first.
        asking_id: The message that asked for them.
        asked_at: When it did.
        said: What is appended of the request's messages.
        given_up: Calls of a client's tools that nobody will answer any more.
    """

    keep: int
    append: bool
    replaced_id: str | None = None
    open_calls: Sequence[ToolCall] = ()
    asking_id: str = ""
    asked_at: str = ""
    said: Sequence[Message] = ()
    given_up: Sequence[ToolCall] = ()


def continue_from(
    messages: Sequence[Message],
    message: str | None,
    *,
    attachments: Sequence[Attachment] = (),
    client_tools: Iterable[str] = (),
) -> Continuation | None:
    """Decide how a chat request continues from ``messages``; None: there is nothing to answer.

    A message that equals the last one, which is a user message that got no answer, is a retry of
    it: it is not said twice (docs/decisions/0003).

    Args:
        messages: The history.
        message: What the user says, if anything.
        attachments: The images and files of the message.
        client_tools: The tools that the client runs. Calls of others that clients ran are given up.

    Raises:
        MissingToolResult: A call of such a tool is open, and has no result.
    """
    last = messages[-1] if messages else None
    if message is not None:
        said_already = (
            isinstance(last, UserMessage)
            and not last.hidden
            and last.content == message
            and last.attachments == tuple(attachments)
        )
        return Continuation(keep=len(messages), append=not said_already)
    if _may_be_resumed(last):
        given_up = [call for call in open_calls(messages) if call.client_side]
        for call in given_up:
            if call.name in client_tools:
                raise MissingToolResult(call.id)
        return _resumed(messages, given_up=given_up)
    start = answer_start(messages)
    if not start or messages[start - 1].hidden:
        return None
    replaced = messages[start].message_id if start < len(messages) else None
    return Continuation(keep=start, append=False, replaced_id=replaced)


def go_on(messages: Sequence[Message]) -> Continuation | None:
    """Decide how a turn continues that another process began; calls of clients stay theirs."""
    if _may_be_resumed(messages[-1] if messages else None):
        return _resumed(messages)
    return continue_from(messages, None)


def _may_be_resumed(last: Message | None) -> bool:
    """Return whether a history ends with calls or results, which models are sent."""
    if last is None or last.hidden:
        return False
    return isinstance(last, ToolMessage) or (
        isinstance(last, AssistantMessage) and bool(last.tool_calls)
    )


def continue_with(messages: Sequence[Message], new_messages: Sequence[Message]) -> Continuation:
    """Decide how a request that brings messages continues from ``messages`` (docs/decisions/0057).

    Messages that the history ends with, unanswered, are not said twice, and neither are results
    that it has.

    Args:
        messages: The history.
        new_messages: What the request brings, at least one message.

    Raises:
        MissingToolResult: A call of a client's tool has no result.
        ValidationFailed: A result is of no such call.
    """
    if _ends_with(messages, new_messages):
        return _resumed(messages)
    new = _paired(messages, new_messages)
    return _resumed(messages, new_messages=new)


def _resumed(
    messages: Sequence[Message],
    *,
    new_messages: Sequence[Message] = (),
    given_up: Sequence[ToolCall] = (),
) -> Continuation:
    """Return the continuation of a history that begins with the calls that it leaves open."""
    history = [*messages, *new_messages] if new_messages else messages
    given_up_ids = {call.id for call in given_up}
    waiting = [call for call in open_calls(history) if call.id not in given_up_ids]
    asking = next((m for m in reversed(history) if isinstance(m, AssistantMessage)), None)
    return Continuation(
        keep=len(messages),
        append=False,
        open_calls=tuple(waiting),
        asking_id=asking.message_id if asking and open_calls(history) else "",
        asked_at=asking.timestamp if asking else "",
        said=tuple(new_messages),
        given_up=tuple(given_up),
    )


_MADE_UP = frozenset({"message_id", "timestamp", "tool_name", "turn_id", "usage"})
"""Fields that messages get here, and so differ when the same is said again."""


def _ends_with(messages: Sequence[Message], new_messages: Sequence[Message]) -> bool:
    """Return whether these messages were said already, and got no answer."""
    if isinstance(new_messages[-1], AssistantMessage) or len(messages) < len(new_messages):
        return False
    return all(
        _same(*pair) for pair in zip(messages[-len(new_messages) :], new_messages, strict=True)
    )


def _same(one: Message, other: Message) -> bool:
    if type(one) is not type(other) or one.content != other.content:
        return False
    return _as_said(one) == _as_said(other)


def _as_said(message: Message) -> Mapping[str, object]:
    kept = message_to_json(message)
    said: dict[str, object] = {name: value for name, value in kept.items() if name not in _MADE_UP}
    if isinstance(message, UserMessage | ToolMessage) and message.attachments:
        said["attachments"] = [each.id for each in message.attachments]  # a name may be lost
    return said


def _paired(messages: Sequence[Message], new_messages: Sequence[Message]) -> list[Message]:
    """Return what is new of the messages, with the names of the tools that results are of.

    Raises:
        MissingToolResult: A call has no result.
        ValidationFailed: A result has no call, or its call has another result.
    """
    asked, waiting, given = _last_round(messages)
    new: list[Message] = []
    for index, message in enumerate(new_messages):
        if isinstance(message, ToolMessage):
            call = asked.get(message.tool_call_id or "")
            before = given.get(message.tool_call_id or "")
            if call is None or (before is not None and before.content != message.content):
                raise _no_call(message, index, is_answered=call is not None)
            if before is None:
                given[call.id] = message
                new.append(msgspec.structs.replace(message, tool_name=call.name))
            continue
        _require_all(waiting, given)
        if isinstance(message, AssistantMessage):
            asked, given = {call.id: call for call in message.tool_calls}, {}
            waiting = message.tool_calls
        else:
            asked, waiting, given = {}, (), {}
        new.append(message)
    _require_all(waiting, given)
    return new


def _last_round(
    messages: Sequence[Message],
) -> tuple[dict[str, ToolCall], Sequence[ToolCall], dict[str, ToolMessage]]:
    """Return the calls of clients' tools at the end of a history, and the results that they have.

    The calls come twice: by id, and those that have no result.
    """
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        results.append(message)
    last = messages[-len(results) - 1] if len(messages) > len(results) else None
    if not isinstance(last, AssistantMessage):
        return {}, (), {}
    asked = {call.id: call for call in last.tool_calls if call.client_side}
    given = {each.tool_call_id or "": each for each in results if each.tool_call_id in asked}
    waiting = [call for call in open_calls(messages) if call.client_side]
    return asked, waiting, given


def _require_all(calls: Sequence[ToolCall], results: Mapping[str, ToolMessage]) -> None:
    for call in calls:
        if call.id not in results:
            raise MissingToolResult(call.id)


def _no_call(message: ToolMessage, index: int, *, is_answered: bool) -> ValidationFailed:
    call_id = message.tool_call_id or ""
    words = (
        f"The tool call '{call_id[:64]}' has another result already."
        if is_answered
        else f"No tool call '{call_id[:64]}' waits for a result right before it."
    )
    return ValidationFailed(words, field=f"messages[{index}]", tool_call_id=call_id[:64])


def for_model(messages: Sequence[Message]) -> list[Message]:
    """Return the history as a model is sent it.

    Every tool call has its result (providers refuse orphans), the marker of cancelled answers is
    off, and cancelled or interrupted answers without any text are left out.
    """
    special = [
        message
        for message in messages
        if isinstance(message, ToolMessage)
        or (
            isinstance(message, AssistantMessage)
            and (message.tool_calls or message.cancelled or message.interrupted)
        )
    ]
    if not special:
        return list(messages)
    sent: list[Message] = []
    for message in pair_calls(messages):
        if isinstance(message, AssistantMessage) and (message.cancelled or message.interrupted):
            content = unmark_cancelled(message.content)
            if content:
                sent.append(msgspec.structs.replace(message, content=content))
        else:
            sent.append(message)
    return sent
