"""Converts the end and the usage of a turn to the protocol's fields. Pure."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from chat.stream.events import Cancelled, Failed, MessageComplete
from chat.turn.usage import cost_of
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


class CachedTokensOut(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt tokens read from the provider's cache."""

    cached_tokens: int = 0


class ReasoningTokensOut(msgspec.Struct, frozen=True, kw_only=True):
    """Reasoning tokens."""

    reasoning_tokens: int = 0


class UsageOut(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all model calls of a turn; 0 if a provider does not report them.

    ``cost`` is in US dollars, as in OpenRouter's API; left out if unknown.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: CachedTokensOut = CachedTokensOut()
    completion_tokens_details: ReasoningTokensOut = ReasoningTokensOut()
    cost: float | UnsetType = UNSET


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a turn.

    Attributes:
        finish_reason: Why the answer ended; None after an error.
        usage: The usage of the turn.
        refusal: Why the provider refused the content, if it did.
        error: The error that ended the turn, if there is no ``finish_reason``.
    """

    finish_reason: FinishReason | None
    usage: UsageOut = UsageOut()
    refusal: str | None = None
    error: Failed | None = None


_SUSPENDED = Ending(finish_reason=None, error=_WAITS)


def ending_of(
    event: MessageComplete | Cancelled | Failed | None, *, calls: int, said_something: bool
) -> Ending:
    """Return the end of a turn.

    Args:
        event: The event that ended it; None if it waits for approvals.
        calls: The number of open calls of the client's tools.
        said_something: Whether there was any output before.
    """
    if isinstance(event, MessageComplete):
        reason = "tool_calls" if calls else _REASONS.get(event.done_reason, "stop")
        return Ending(finish_reason=reason, usage=_usage_of(event.turn_usage))
    if isinstance(event, Cancelled):
        return Ending(finish_reason="stop", usage=_usage_of(event.turn_usage))
    if event is None:
        return _SUSPENDED
    usage = _usage_of(event.turn_usage)
    if event.code == _REFUSED:
        return Ending(finish_reason="content_filter", usage=usage, refusal=event.message)
    if event.code == _STOPPED_BY_A_LIMIT and said_something:
        return Ending(finish_reason="length", usage=usage)
    return Ending(finish_reason=None, usage=usage, error=event)


def _usage_of(used: Usage | UnsetType) -> UsageOut:
    if used is UNSET:  # in an older journal
        return UsageOut()
    request, answer = used.input_tokens or 0, used.output_tokens or 0
    return UsageOut(
        prompt_tokens=request,
        completion_tokens=answer,
        total_tokens=request + answer,
        prompt_tokens_details=CachedTokensOut(cached_tokens=used.cached_tokens or 0),
        completion_tokens_details=ReasoningTokensOut(reasoning_tokens=used.reasoning_tokens or 0),
        cost=UNSET if (cost := cost_of(used)) is None else float(cost),
    )
