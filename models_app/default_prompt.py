"""Adds a model's own system prompt to conversations that have none. Pure."""

from collections.abc import Sequence

import msgspec

from sessions_app.messages import Message, SystemMessage


def with_default_prompt(messages: Sequence[Message], prompt: str) -> Sequence[Message]:
    """Return the messages with the prompt, unless the session has one of its own.

    A system message without an id was added for the request (a record of left-out messages): the
    prompt is inserted before its text.
    """
    given = next((item for item in messages if isinstance(item, SystemMessage)), None)
    if given is None:
        return [SystemMessage(content=prompt, message_id="", timestamp=""), *messages]
    if given.message_id:
        return messages
    merged = msgspec.structs.replace(given, content=f"{prompt}\n\n{given.content}")
    return [merged if item is given else item for item in messages]
