"""Defines the record of a model call, which is a line of the ledger. Pure.

A line is a JSON object. ``v`` is the version of the format: readers skip lines of later versions,
and ignore unknown fields of this one.
"""

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal

import msgspec

from chat.context.tokens import CHARACTERS_PER_TOKEN, estimate_messages, estimate_tools
from mochi_project.principal import DEFAULT_OWNER
from models_app.language_model import Finished, ModelRequest
from models_app.model_calls import CANCELLED, OK, ModelCall, ModelCallStart
from models_app.prices import read_money
from sessions_app.decoding import decoder_of
from usage_app.price import Price

VERSION: Literal[1] = 1
LINE_BYTES = 4096
"""The most bytes of a line, its end included: the system appends that much in one piece."""

_NAME_LENGTH = 300
_MONTH = len("2026-11")
_DAY = len("2026-11-22")


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The record of a model call that has ended. Unknown values are left out.

    Attributes:
        v: The version of the format.
        t: When it ended: UTC, ISO 8601 with milliseconds and ``Z``.
        provider: The provider: ``ollama``, or a vendor's name.
        model: The model's name, without its provider.
        purpose: The purpose of the call.
        status: ``ok``, ``cancelled``, or the code of the error that ended it.
        ms: The duration in milliseconds.
        owner: The owner of data that it was made for; left out of the default owner's lines.
        call_id: The unique id of the call.
        ttft_ms: The time to its first output; None if there was none.
        session_id: The session that it was made for.
        turn_id: The turn that it was made for.
        input: Prompt tokens, including ``cached`` and ``cache_write``.
        output: Completion tokens, including reasoning.
        cached: Prompt tokens read from the provider's cache.
        cache_write: Prompt tokens written to the provider's cache.
        reasoning: Reasoning tokens.
        images: The number of images in the request.
        cost_usd: The cost in US dollars: a decimal number.
        price_source: The source of the price.
        estimated: Whether tokens, and so the cost, are estimated, because the call was stopped or
            broke off, or the provider counts nothing.
    """

    v: Literal[1]
    t: str
    provider: str
    model: str
    purpose: str
    status: str
    ms: int
    owner: str = DEFAULT_OWNER
    call_id: str | None = None
    ttft_ms: int | None = None
    session_id: str | None = None
    turn_id: str | None = None
    input: int | None = None
    output: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    images: int = 0
    cost_usd: str | None = None
    price_source: str | None = None
    estimated: bool = False

    @property
    def day(self) -> str:
        """The day on which it ended (UTC): ``2026-11-22``."""
        return self.t[:_DAY]

    @property
    def month(self) -> str:
        """The month in which it ended (UTC): ``2026-11``."""
        return self.t[:_MONTH]

    @property
    def full_name(self) -> str:
        """The model's name as in requests: with its provider, except Ollama."""
        return full_name(self.provider, self.model)

    @property
    def cost(self) -> Decimal | None:
        """The cost in US dollars; None if it is unknown."""
        return None if self.cost_usd is None else read_money(self.cost_usd)

    @property
    def is_unpriced(self) -> bool:
        """Return whether the call may have an unknown cost.

        A call that failed before the model produced output cost nothing.
        """
        return self.cost is None and self.was_answered

    @property
    def was_answered(self) -> bool:
        """Return whether the provider processed the request."""
        known = self.ttft_ms is not None or self.input is not None
        return known or self.status in (OK, CANCELLED)


def full_name(provider: str, model: str) -> str:
    """Return a model's name as in requests: with its provider, except Ollama."""
    return model if provider == "ollama" else f"{provider}:{model}"


def tokens_sent(start: ModelCallStart) -> int:
    """Estimate the tokens of a call's request."""
    if start.request is None:
        return int(start.characters / CHARACTERS_PER_TOKEN)
    return estimate_messages(start.request.messages) + estimate_tools(start.request.tools)


def tokens_of(call: ModelCall) -> Finished:
    """Return the tokens of a call, estimated as far as its provider did not count them.

    Budgets count them, too (docs/decisions/0122). A call that failed before the model produced
    output used none.
    """
    tokens, has_output = call.tokens, call.seconds_to_first_token is not None
    if not (has_output or call.outcome in (OK, CANCELLED)):
        return tokens
    if tokens.prompt_eval_count is None:
        sent = tokens_sent(call.start) or None
        tokens = msgspec.structs.replace(tokens, prompt_eval_count=sent)
    if tokens.eval_count is None and call.streamed:
        streamed = math.ceil(call.streamed / CHARACTERS_PER_TOKEN)
        tokens = msgspec.structs.replace(tokens, eval_count=streamed)
    return tokens


def record_of(call: ModelCall, price: Price | None) -> UsageRecord:
    """Return the record of a call.

    Args:
        call: The call.
        price: The price of ``tokens_of`` it; None if it is unknown.
    """
    start, tokens = call.start, tokens_of(call)
    caller = start.caller
    ended = datetime.fromtimestamp(call.started_at + call.seconds, UTC)
    first = call.seconds_to_first_token
    return UsageRecord(
        v=VERSION,
        t=ended.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        provider=start.provider[:_NAME_LENGTH],
        model=start.model[:_NAME_LENGTH],
        purpose=start.purpose,
        status=call.outcome[:_NAME_LENGTH],
        ms=round(call.seconds * 1000),
        owner=start.owner,
        call_id=start.call_id or None,
        ttft_ms=None if first is None else round(first * 1000),
        session_id=caller.session_id if caller else None,
        turn_id=caller.turn_id if caller else None,
        input=tokens.prompt_eval_count,
        output=tokens.eval_count,
        cached=tokens.cached_count,
        cache_write=tokens.cache_write_count,
        reasoning=tokens.reasoning_count,
        images=_images_in(start.request),
        cost_usd=None if price is None else price.text,
        price_source=None if price is None else price.source,
        estimated=tokens != call.tokens,
    )


def _images_in(request: ModelRequest | None) -> int:
    if request is None or not request.files:
        return 0
    return sum(
        each.media_type.startswith("image/") and each.id in request.files
        for message in request.messages
        for each in getattr(message, "attachments", ())
    )


_encoder = msgspec.json.Encoder()
_decoder = decoder_of(UsageRecord)


def line_of(record: UsageRecord) -> bytes:
    """Return a record as a line, including the newline."""
    return _encoder.encode(record) + b"\n"


def read_line(line: bytes) -> UsageRecord | None:
    """Return the record of a line; None if it is incomplete, unknown, or of a later version."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
