"""Decides how a turn continues a conversation, and prepares its history for a model. Pure."""

from collections.abc import Sequence

import msgspec

from sessions_app.calls import open_calls, pair_calls
from sessions_app.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    unmark_cancelled,
)


class Continuation(msgspec.Struct, frozen=True):
    """Describes how a turn continues the history.

    Attributes:
        keep: How many messages the model is sent; what comes after them is replaced.
        append: Whether the request's message is appended (it may stand there already).
        replaced_id: The first message of the answer that is made again. It stays until a message
            of the new one is saved.
        open_calls: Tool calls that were asked for and never answered; they run first.
        asking_id: The message that asked for them.
    """

    keep: int
    append: bool
    replaced_id: str | None = None
    open_calls: Sequence[ToolCall] = ()
    asking_id: str = ""


def continue_from(messages: Sequence[Message], message: str | None) -> Continuation | None:
    """Decide how a chat request continues from ``messages``; None: there is nothing to answer.

    A message that equals the last one, which is a user message that got no answer, is a retry of
    it: it is not said twice (docs/decisions/0003).
    """
    last = messages[-1] if messages else None
    if message is not None:
        said_already = isinstance(last, UserMessage) and last.content == message
        return Continuation(keep=len(messages), append=not said_already)
    if isinstance(last, ToolMessage) or (isinstance(last, AssistantMessage) and last.tool_calls):
        asking = next((m for m in reversed(messages) if isinstance(m, AssistantMessage)), None)
        return Continuation(
            keep=len(messages),
            append=False,
            open_calls=open_calls(messages),
            asking_id=asking.message_id if asking else "",
        )
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], UserMessage):
            replaced = messages[index + 1].message_id if index + 1 < len(messages) else None
            return Continuation(keep=index + 1, append=False, replaced_id=replaced)
    return None


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
