"""Messages that parsed items make, in a form that tests compare."""

from typing import Any

from sessions_app.ids_and_clock import new_message_id
from sessions_app.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
)

SESSION = "0123456789"
NOW = "2026-01-01T00:00:00.000000+00:00"


def ids() -> dict[str, str]:
    return {"message_id": new_message_id(), "timestamp": NOW}


def said(messages: Any) -> list[Any]:
    """What messages say, without ids and times."""
    return [
        (type(message).__name__, message.content, getattr(message, "thinking", None))
        + tuple(
            (call.id, call.name, dict(call.arguments), call.client_side) for call in calls(message)
        )
        + ((message.tool_call_id, message.failed) if isinstance(message, ToolMessage) else ())
        for message in messages
    ]


def calls(message: Message) -> Any:
    return message.tool_calls if isinstance(message, AssistantMessage) else ()
