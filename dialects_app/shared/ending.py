"""Determines how a turn ended, for protocols that show nothing of it but its answer. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from chat.errors import TurnCrashed, TurnFailed
from chat.stream.events import Cancelled, Failed, MessageComplete
from sessions_app.errors import MochiError
from sessions_app.messages import Usage

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]

_STOPPED_BY_A_LIMIT = "TURN_LIMIT_REACHED"
_REFUSED = "CONTENT_REFUSED"
_REASONS: Mapping[str | None, FinishReason] = {
    "length": "length",
    "content_filter": "content_filter",
}
_WAITS = Failed(
    code="TOOL_CONFIRMATION_REQUIRED",
    message="A tool call waits for an approval, for which this protocol can't ask.",
    details={"retryable": False},
)


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a turn.

    Attributes:
        finish_reason: Why the answer ended, in OpenAI's words, unless an error ended it.
        usage: The usage of the turn.
        refusal: Why the provider refused the content, if it did.
        error: The error that ended the turn.
    """

    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    refusal: Failed | None = None
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
        return Ending(error=_WAITS)
    usage = Usage() if event.turn_usage is UNSET else event.turn_usage  # in an older journal
    if isinstance(event, MessageComplete):
        reason = "tool_calls" if calls else _REASONS.get(event.done_reason, "stop")
        return Ending(finish_reason=reason, usage=usage)
    if isinstance(event, Cancelled):
        return Ending(usage=usage)
    if event.code == _REFUSED:
        return Ending(finish_reason="content_filter", usage=usage, refusal=event)
    if event.code == _STOPPED_BY_A_LIMIT and said_something:
        return Ending(finish_reason="length", usage=usage)
    return Ending(usage=usage, error=event)


def failure_of(error: Failed | None) -> MochiError:
    """Return the error that ended a turn, from its event."""
    if error is None:
        return TurnCrashed()
    details: Mapping[str, Any] = {
        name: value for name, value in error.details.items() if name != "retryable"
    }
    return TurnFailed(
        error.code,
        error.message,
        retryable=bool(error.details.get("retryable")),
        **details,
    )
