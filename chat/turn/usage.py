"""Counts what the model calls of a turn cost. Pure."""

from collections.abc import Iterable, Sequence

from chat.stream.events import TurnUsage
from models_app.language_model import Finished
from sessions_app.messages import AssistantMessage, Usage
from sessions_app.session import Session
from sessions_app.variants import newest_first


def usage_of_call(
    counts: Sequence[Finished],
    *,
    seconds_to_first_token: float | None,
    seconds: float | None,
) -> Usage:
    """Return what an answer cost.

    Args:
        counts: The ends of the requests that it took; it may take several.
        seconds_to_first_token: From the first request to the first output, if there was any.
        seconds: From the first request to the end of the last one, if it has come.
    """
    return Usage(
        input_tokens=_sum(end.prompt_eval_count for end in counts),
        output_tokens=_sum(end.eval_count for end in counts),
        cached_tokens=_sum(end.cached_count for end in counts),
        reasoning_tokens=_sum(end.reasoning_count for end in counts),
        first_token_ms=_milliseconds(seconds_to_first_token),
        total_ms=_milliseconds(seconds),
    )


def usage_of_turn(usages: Iterable[Usage | None]) -> TurnUsage | None:
    """Return what the answers of a turn cost together; None where nothing is known of any."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    return TurnUsage(
        input_tokens=_sum(usage.input_tokens for usage in known),
        output_tokens=_sum(usage.output_tokens for usage in known),
        cached_tokens=_sum(usage.cached_tokens for usage in known),
        reasoning_tokens=_sum(usage.reasoning_tokens for usage in known),
        first_token_ms=known[0].first_token_ms,
        total_ms=_sum(usage.total_ms for usage in known),
    )


def saved_usage(session: Session, turn_id: str) -> TurnUsage | None:
    """Return what a turn cost, from the answers of it that were saved."""
    answers = [
        message
        for message in newest_first(session.messages)
        if isinstance(message, AssistantMessage) and message.turn_id == turn_id
    ]
    return usage_of_turn(message.usage for message in reversed(answers))


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
