"""Finds vendors' signatures in the tool calls of a history. Pure.

Anthropic and Google refuse to continue after tool calls without the signed thinking before them. It
is stored in the call's ``extra``, and so in the session's file, so that another process can resume
the turn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sessions_app.messages import AssistantMessage, Message, ToolMessage

STATE_KEY = "provider_state"


def running_round_is_signed(messages: Sequence[Message], vendor: str) -> bool:
    """Return whether a vendor accepts a request for thinking.

    It does unless the history ends with results of calls that were made without its thinking.
    """
    if not messages or not isinstance(messages[-1], ToolMessage):
        return True
    asking = next((it for it in reversed(messages) if isinstance(it, AssistantMessage)), None)
    if asking is None or not asking.tool_calls:
        return True
    state = asking.tool_calls[0].extra.get(STATE_KEY)
    return (
        isinstance(state, Mapping)
        and state.get("provider") == vendor
        and any(part.get("signature") for part in state.get("thinking", ()))
    )


def plain(value: Any) -> Any:
    """Convert frozen mappings and sequences to the dicts and lists of JSON."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
