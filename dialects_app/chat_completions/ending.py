"""Converts how a turn ended, and its usage, to the fields of the protocol. Pure."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from chat.stream.events import Cancelled, ClientToolCall, Event, Failed, MessageComplete
from chat.turn.usage import cost_of
from models_app.call_arguments import INVALID_JSON
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
    """Tokens of the request that the provider had cached."""

    cached_tokens: int = 0


class ReasoningTokensOut(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of the answer that were reasoning."""

    reasoning_tokens: int = 0


class UsageOut(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all model calls of a turn together; 0 where a provider does not say.

    ``cost`` is in US dollars, as OpenRouter has it; left out where it is not known.
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
        finish_reason: Why the answer ends; None where an error ended it.
        usage: What the turn used.
        refusal: Why the provider refused the content, if it did.
        error: What ended the turn, unless it has a ``finish_reason``.
    """

    finish_reason: FinishReason | None
    usage: UsageOut = UsageOut()
    refusal: str | None = None
    error: Failed | None = None


SUSPENDED = Ending(finish_reason=None, error=_WAITS)
"""The end of a turn without a last event: calls wait for approvals."""


def ending_of(event: Event | None, *, calls: int, said_something: bool) -> Ending | None:
    """Return what an event says of the end of its turn; None if it says nothing.

    Args:
        event: The event.
        calls: How many calls of the client's tools the turn left open.
        said_something: Whether there was any answer before.
    """
    if isinstance(event, MessageComplete):
        reason = "tool_calls" if calls else _REASONS.get(event.done_reason, "stop")
        return Ending(finish_reason=reason, usage=_usage_of(event.turn_usage))
    if isinstance(event, Cancelled):
        return Ending(finish_reason="stop", usage=_usage_of(event.turn_usage))
    if not isinstance(event, Failed):
        return None
    usage = _usage_of(event.turn_usage)
    if event.code == _REFUSED:
        return Ending(finish_reason="content_filter", usage=usage, refusal=event.message)
    if event.code == _STOPPED_BY_A_LIMIT and said_something:
        return Ending(finish_reason="length", usage=usage)
    return Ending(finish_reason=None, usage=usage, error=event)


def arguments_text(call: ClientToolCall) -> str:
    """Return the arguments of a call as JSON; as the model wrote them where they are none."""
    if call.arguments.keys() == {INVALID_JSON}:
        return str(call.arguments[INVALID_JSON])
    return msgspec.json.encode(call.arguments).decode()


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
