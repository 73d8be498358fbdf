"""Finds vendors' signatures in the tool calls of a history. Pure.

Anthropic and Google refuse to continue after tool calls without the signed thinking before them. It
is stored in the call's ``extra``, and so in the session's file, so that another process can resume
the turn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from sessions_app.messages import AssistantMessage, Message, ToolCall, ToolMessage

STATE_KEY = "provider_state"
RESPONSES = "responses"
"""The ``api`` of state that OpenAI's Responses stored."""


def state_of(
    call: ToolCall, asking: AssistantMessage, vendor: str, model: str, api: str | None = None
) -> Mapping[str, Any]:
    """Return the state that a model of a vendor stored in its call; nothing for any other model.

    Signatures are the model's: another one of the same vendor refuses them.

    Args:
        call: The call.
        asking: The answer with the call; it says who wrote calls whose state does not.
        vendor: The vendor to ask.
        model: The model to ask, without its provider.
        api: The API to ask by, if its vendor has several: each has state of its own kind.
    """
    state = call.extra.get(STATE_KEY)
    if not isinstance(state, Mapping) or state.get("provider") != vendor:
        return {}
    if state.get("api") != api:
        return {}
    written_by = state.get("model") or asking.answered_by or asking.model
    own = (None, "", model, f"{vendor}:{model}")
    return state if written_by in own else {}


def phase_of(message: AssistantMessage, vendor: str) -> str | None:
    """Return the phase of an answer's text, which OpenAI wants back; None if it had none.

    A text before calls has the one that the model gave it; a final one is kept without state.
    """
    if message.is_complete:
        written_by = message.answered_by or message.model
        return "final_answer" if written_by.startswith(f"{vendor}:") else None
    state = message.tool_calls[0].extra.get(STATE_KEY) if message.tool_calls else None
    if not isinstance(state, Mapping) or state.get("provider") != vendor:
        return None
    phase = state.get("phase")
    return phase if isinstance(phase, str) else None


def has_state(messages: Sequence[Message]) -> bool:
    """Return whether a call of a history has state of a vendor."""
    return any(
        STATE_KEY in call.extra
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    )


def without_state(messages: Sequence[Message]) -> list[Message]:
    """Return a history whose calls have no state of vendors."""
    return [
        structs.replace(message, tool_calls=[_stateless(call) for call in message.tool_calls])
        if isinstance(message, AssistantMessage) and message.tool_calls
        else message
        for message in messages
    ]


def _stateless(call: ToolCall) -> ToolCall:
    extra = {name: value for name, value in call.extra.items() if name != STATE_KEY}
    return structs.replace(call, extra=extra)


def running_round_is_signed(messages: Sequence[Message], vendor: str, model: str) -> bool:
    """Return whether a model accepts a request for thinking.

    It does unless the history ends with results of calls that were made without its thinking.
    """
    if not messages or not isinstance(messages[-1], ToolMessage):
        return True
    asking = next((it for it in reversed(messages) if isinstance(it, AssistantMessage)), None)
    if asking is None or not asking.tool_calls:
        return True
    state = state_of(asking.tool_calls[0], asking, vendor, model)
    return any(part.get("signature") for part in state.get("thinking", ()))


def plain(value: Any) -> Any:
    """Convert frozen mappings and sequences to the dicts and lists of JSON."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
