"""Converts the end and the usage of a turn to the protocol's fields. Pure."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from chat.stream.events import MessageComplete
from dialects_app.shared.ending import FinishReason
from dialects_app.shared.turn_fold import Ending
from sessions_app.messages import Usage

StopReason = Literal[
    "end_turn", "max_tokens", "tool_use", "refusal", "model_context_window_exceeded"
]

_REASONS: Mapping[FinishReason, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


class UsageOut(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all model calls of a turn; 0 where a provider does not report them.

    ``input_tokens`` are those that were neither read from a cache nor written to it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


def stop_reason_of(reason: FinishReason, event: Ending | None) -> StopReason:
    """Return why the message ended, from the reason and the event of the turn's end."""
    if reason == "length" and isinstance(event, MessageComplete):
        tokens = event.context_window.get("usage_tokens")
        size = event.context_window.get("current_window")
        if isinstance(tokens, int) and isinstance(size, int) and 0 < size <= tokens:
            return "model_context_window_exceeded"
    return _REASONS[reason]


def usage_of(used: Usage) -> UsageOut:
    """Return the usage of a turn."""
    cached, written = used.cached_tokens or 0, used.cache_write_tokens or 0
    return UsageOut(
        input_tokens=max((used.input_tokens or 0) - cached - written, 0),
        output_tokens=used.output_tokens or 0,
        cache_creation_input_tokens=written,
        cache_read_input_tokens=cached,
    )
