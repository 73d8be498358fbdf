"""Converts the end and the usage of a turn to the protocol's fields. Pure."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from chat.stream.events import Cancelled, Failed, MessageComplete
from sessions_app.messages import Usage

StopReason = Literal[
    "end_turn", "max_tokens", "tool_use", "refusal", "model_context_window_exceeded"
]

_STOPPED_BY_A_LIMIT = "TURN_LIMIT_REACHED"
_REFUSED = "CONTENT_REFUSED"
_REASONS: Mapping[str | None, StopReason] = {"length": "max_tokens", "content_filter": "refusal"}
_WAITS = Failed(
    code="TOOL_CONFIRMATION_REQUIRED",
    message="A tool call waits for an approval, for which this protocol can't ask.",
    details={"retryable": False},
)


class UsageOut(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all model calls of a turn; 0 where a provider does not report them.

    ``input_tokens`` are those that were neither read from a cache nor written to it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a turn: ``stop_reason`` is None after an error."""

    stop_reason: StopReason | None
    usage: UsageOut = UsageOut()
    error: Failed | None = None


def ending_of(
    event: MessageComplete | Cancelled | Failed | None, *, calls: int, said_something: bool
) -> Ending:
    """Return the end of a turn.

    Args:
        event: The event that ended it; None if it waits for approvals.
        calls: The number of open calls of the client's tools.
        said_something: Whether there was any output before.
    """
    if event is None:
        return Ending(stop_reason=None, error=_WAITS)
    usage = _usage_of(event.turn_usage)
    if isinstance(event, Cancelled):
        return Ending(stop_reason="end_turn", usage=usage)
    if isinstance(event, MessageComplete):
        reason = "tool_use" if calls else _REASONS.get(event.done_reason, "end_turn")
        if reason == "max_tokens" and _fills_window(event.context_window):
            reason = "model_context_window_exceeded"
        return Ending(stop_reason=reason, usage=usage)
    if event.code == _REFUSED:
        return Ending(stop_reason="refusal", usage=usage)
    if event.code == _STOPPED_BY_A_LIMIT and said_something:
        return Ending(stop_reason="max_tokens", usage=usage)
    return Ending(stop_reason=None, usage=usage, error=event)


def _fills_window(window: Mapping[str, object]) -> bool:
    tokens, size = window.get("usage_tokens"), window.get("current_window")
    return isinstance(tokens, int) and isinstance(size, int) and 0 < size <= tokens


def _usage_of(used: Usage | UnsetType) -> UsageOut:
    if used is UNSET:  # in an older journal
        return UsageOut()
    cached, written = used.cached_tokens or 0, used.cache_write_tokens or 0
    return UsageOut(
        input_tokens=max((used.input_tokens or 0) - cached - written, 0),
        output_tokens=used.output_tokens or 0,
        cache_creation_input_tokens=written,
        cache_read_input_tokens=cached,
    )
