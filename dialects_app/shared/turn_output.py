"""Separates what a turn put out from what it was asked. Pure."""

from collections.abc import Container, Sequence

from sessions_app.messages import AssistantMessage, Message, ToolMessage, UserMessage


def without_output(messages: Sequence[Message], turn_id: str) -> list[Message]:
    """Return messages without those of a turn that came after its request.

    Of a running turn clients may have more than the session, or less: it is saved round by round.
    """
    of_clients = {
        call.id
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
        if call.client_side
    }
    made = [at for at, each in enumerate(messages) if _is_made_by(each, turn_id, of_clients)]
    first = made[0] if made else len(messages)
    return [
        message
        for at, message in enumerate(messages)
        if at < first or message.turn_id != turn_id  # users may speak while it runs
    ]


def _is_made_by(message: Message, turn_id: str, of_clients: Container[str | None]) -> bool:
    """Return whether a turn put out a message; results of client calls came with its request."""
    if message.turn_id != turn_id or isinstance(message, UserMessage):
        return False
    return not isinstance(message, ToolMessage) or message.tool_call_id not in of_clients
