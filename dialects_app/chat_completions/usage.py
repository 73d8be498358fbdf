"""Converts the usage of a turn to the protocol's fields. Pure."""

import msgspec
from msgspec import UNSET, UnsetType

from chat.turn.usage import cost_of
from sessions_app.messages import Usage


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


def usage_of(used: Usage) -> UsageOut:
    """Return the usage of a turn."""
    request, answer = used.input_tokens or 0, used.output_tokens or 0
    return UsageOut(
        prompt_tokens=request,
        completion_tokens=answer,
        total_tokens=request + answer,
        prompt_tokens_details=CachedTokensOut(cached_tokens=used.cached_tokens or 0),
        completion_tokens_details=ReasoningTokensOut(reasoning_tokens=used.reasoning_tokens or 0),
        cost=UNSET if (cost := cost_of(used)) is None else float(cost),
    )
