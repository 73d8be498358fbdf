"""Sums up the tokens, times and costs of a turn's model calls. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from chat.stream.usage import TurnUsage
from models_app.language_model import Finished
from models_app.prices import money, read_money
from sessions_app.messages import AssistantMessage, Message, Usage
from sessions_app.session import Session
from sessions_app.variants import newest_first

_TOKENS = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


def usage_of_call(
    counts: Sequence[Finished],
    *,
    seconds_to_first_token: float | None,
    seconds: float | None,
) -> Usage:
    """Return the usage of an answer.

    Args:
        counts: The ends of its requests, which may be several.
        seconds_to_first_token: From the first request to the first output, if any.
        seconds: From the first request to the end of the last one; None before it.
    """
    return Usage(
        input_tokens=sum_of([end.prompt_eval_count for end in counts]),
        output_tokens=sum_of([end.eval_count for end in counts]),
        cached_tokens=sum_of([end.cached_count for end in counts]),
        cache_write_tokens=sum_of([end.cache_write_count for end in counts]),
        reasoning_tokens=sum_of([end.reasoning_count for end in counts]),
        first_token_ms=_milliseconds(seconds_to_first_token),
        total_ms=_milliseconds(seconds),
        cost_usd=_money([end.cost for end in counts]),
    )


def usage_of_turn(usages: Iterable[Usage | None]) -> TurnUsage | None:
    """Return the total usage of the answers of a turn; None if none is known."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    return TurnUsage(
        **tokens_of(known),
        first_token_ms=known[0].first_token_ms,
        total_ms=sum_of([usage.total_ms for usage in known]),
        cost_usd=_money([cost_of(usage) for usage in known if has_ended(usage)]),
    )


def saved_usage(session: Session, turn_id: str) -> TurnUsage | None:
    """Return the usage of a turn from its saved answers."""
    return usage_of_turn(usages_of(session, turn_id))


def usages_of(session: Session, turn_id: str) -> Sequence[Usage | None]:
    """Return the usages of a turn's saved answers, oldest first."""
    answers = [
        message
        for message in newest_first(session.messages)
        if isinstance(message, AssistantMessage) and message.turn_id == turn_id
    ]
    return [message.usage for message in reversed(answers)]


def cost_of(usage: Usage) -> Decimal | None:
    """Return the cost in US dollars; None if it is unknown, or invalid in the file."""
    return None if usage.cost_usd is None else read_money(usage.cost_usd)


def sum_of(values: Sequence[int | None]) -> int | None:
    """Return the sum of the known ones of some counts; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def all_answers(messages: Iterable[Message]) -> Iterator[AssistantMessage]:
    """Yield the answers, each with the replaced ones."""
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield message
            for variant in message.variants:
                yield from all_answers(variant)


def has_ended(usage: Usage) -> bool:
    """Return whether a request of the answer ended: only then are there tokens and costs."""
    return usage.input_tokens is not None or usage.output_tokens is not None or bool(usage.cost_usd)


def _money(costs: Sequence[Decimal | None]) -> str | None:
    """Return the sum of costs; None if one is unknown, or there are none."""
    known = [cost for cost in costs if cost is not None]
    return money(sum(known, Decimal(0))) if known and len(known) == len(costs) else None


def tokens_of(usages: Sequence[Usage]) -> dict[str, int | None]:
    """Return the sums of the tokens, by their names."""
    return {name: sum_of([getattr(usage, name) for usage in usages]) for name in _TOKENS}


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
