"""Plans the next model request: messages sent, messages dropped, whether to compact first. Pure.

A history is sent whole until the estimate passes ``TRIGGER_SHARE`` of what the model can hold; then
the oldest messages are dropped, down to ``TARGET_SHARE``. That is far enough to happen rarely: a
provider that keeps what it computed of a prompt's beginning can use it in the turns between
(docs/decisions/0015).
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from chat.context.history import for_model
from chat.context.processors import (
    FilterHistory,
    TruncateByTokens,
    TruncateHistory,
    with_instructions,
    with_summary,
)
from chat.context.strategy import Strategy
from chat.context.tokens import (
    Calibration,
    Estimate,
    calibrate,
    estimate_messages,
    estimate_request,
    estimate_tools,
)
from models_app.default_prompt import with_default_prompt
from sessions_app.context_state import ContextState, digest_of
from sessions_app.messages import Message, ToolMessage, ToolSpec, UserMessage

TRIGGER_SHARE = 0.7
TARGET_SHARE = 0.35
MESSAGES_LEFT = 40

Reason = Literal["summarized", "truncated", "filtered", "without_text"]


class DroppedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is not sent, and the reason."""

    message_id: str
    role: str
    reason: Reason


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """The messages to drop before the request is sent.

    Attributes:
        state: The state to save in the session's metadata, after adding a summary where one is
            wanted.
        messages: The messages that are dropped from now on, oldest first.
        previous: The summary of those that were dropped before.
        summarize: Whether a summary of both is wanted.
    """

    state: ContextState
    messages: Sequence[Message]
    previous: str | None
    summarize: bool


class ContextPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of the next request.

    Attributes:
        messages: The messages, as a model is sent them, but for its own system prompt.
        default_prompt: The model's own system prompt, which its provider adds where they have none.
        estimate: What the request costs.
        limit: Tokens that the request and its answer may take; None when it is unknown.
        threshold: Tokens of a request from which on messages are dropped.
        calibration: The model's measure.
        dropped: The messages that are not sent, oldest first.
        state: The session's context state as far as it holds.
        compaction: The compaction to make first; None when the request can be sent.
    """

    messages: Sequence[Message]
    estimate: Estimate
    limit: int | None
    threshold: int | None
    calibration: Calibration
    dropped: Sequence[DroppedMessage]
    state: ContextState | None
    default_prompt: str | None = None
    compaction: Compaction | None = None

    @property
    def sent(self) -> Sequence[Message]:
        """The messages that the model gets in the end."""
        return with_prompt(self.messages, self.default_prompt)


def plan_request(
    messages: Sequence[Message],
    *,
    state: ContextState | None,
    strategy: Strategy,
    limit: int | None,
    model: str,
    tools: Sequence[ToolSpec] = (),
    default_prompt: str | None = None,
    instructions: str | None = None,
    now: str,
) -> ContextPlan:
    """Plan the next request of a session.

    Args:
        messages: The session's messages, all of them.
        state: What was left out so far, as the session's file says.
        strategy: What to do if the request is too long.
        limit: Tokens that request and answer may take (``limit_of``); None leaves nothing out.
        model: The model's name, as answers bear it.
        tools: The tools that are offered.
        default_prompt: The model's own system prompt.
        instructions: System text that comes before it, or before the session's.
        now: The time (UTC, ISO 8601).
    """
    history = _History(messages, state, strategy)
    sent = _instructed(history.sent(), instructions, default_prompt)
    calibration, since = calibrate(messages, model), history.since
    whole = with_prompt(sent, default_prompt)
    estimate = estimate_request(whole, tools, model=model, calibration=calibration, since=since)
    threshold = None if limit is None else int(limit * TRIGGER_SHARE)
    filtered = False
    if threshold is not None and estimate.tokens > threshold and strategy.filters:
        fewer = FilterHistory()(sent)
        if filtered := len(fewer) < len(sent):
            sent = fewer
            estimate = _uncounted(with_prompt(sent, default_prompt), tools, calibration)
    plan = ContextPlan(
        messages=sent,
        estimate=estimate,
        limit=limit,
        threshold=threshold,
        calibration=calibration,
        dropped=history.dropped(sent, filtered=filtered),
        state=history.state,
        default_prompt=default_prompt,
    )
    return msgspec.structs.replace(plan, compaction=_cut(plan, history, strategy, tools, now))


def with_prompt(messages: Sequence[Message], prompt: str | None) -> Sequence[Message]:
    """Return the messages with the model's own system prompt, as its provider adds it."""
    return with_default_prompt(messages, prompt) if prompt else messages


def _instructed(
    messages: Sequence[Message], instructions: str | None, default_prompt: str | None
) -> Sequence[Message]:
    if not instructions:
        return messages
    return with_instructions(with_prompt(messages, default_prompt), instructions)


class _History:
    """A session's messages, and which of them are dropped already."""

    def __init__(
        self, messages: Sequence[Message], state: ContextState | None, strategy: Strategy
    ) -> None:
        span = span_of(messages, state, strategy) if state is not None else None
        self.state = state if span is not None else None
        self._messages = messages
        self._strategy = strategy
        self._span = span if span is not None else range(0)

    @property
    def since(self) -> str:
        """When the beginning became what it is; empty where nothing is left out."""
        return self.state.created_at if self.state else ""

    def sent(self) -> Sequence[Message]:
        """Return what is sent, as a model is sent it."""
        if self.state is None:
            return for_model(self._messages)
        span = self._span
        last = _last_user(self._messages)
        asked = [self._messages[last]] if last in span else []
        kept = for_model([*self._messages[: span.start], *asked, *self._messages[span.stop :]])
        return with_summary(kept, self.state.summary) if self.state.summary else kept

    def cut(self, gone: Sequence[Message], *, now: str) -> Compaction | None:
        """Return what to leave out so that these messages are; None if there is nothing."""
        ids = {message.message_id for message in gone} - {""}
        places = [at for at, message in enumerate(self._messages) if message.message_id in ids]
        if not places:
            return None
        start, stop = min(places), max(places) + 1
        while stop < len(self._messages) and isinstance(self._messages[stop], ToolMessage):
            stop += 1  # a result that was made up in the place of a lost one has no id
        if self.state is not None:
            start, stop = min(start, self._span.start), max(stop, self._span.stop)
        covered = self._messages[start:stop]
        previous = self.state.summary if self.state else None
        # What has no summary because the model failed gets it now. The question of a long turn is
        # still sent itself, but may be in the summary alone one day.
        summarized = self._span if previous or not self._strategy.summarizes else range(0)
        new = [at for at in range(start, stop) if at not in summarized]
        return Compaction(
            state=ContextState(
                strategy=self._strategy.name,
                first_id=covered[0].message_id,
                last_id=covered[-1].message_id,
                count=len(covered),
                digest=digest_of(covered),
                created_at=now,
            ),
            messages=for_model([self._messages[at] for at in new]),
            previous=previous,
            summarize=self._strategy.summarizes,
        )

    def dropped(self, sent: Sequence[Message], *, filtered: bool) -> list[DroppedMessage]:
        """Return which messages are not among those that are sent, and why."""
        if self.state is None and len(sent) == len(self._messages):
            return []
        there = {message.message_id for message in sent}
        covered: Reason = "summarized" if self.state and self.state.summary else "truncated"
        otherwise: Reason = "filtered" if filtered else "without_text"
        return [
            DroppedMessage(
                message_id=message.message_id,
                role=message.role,
                reason=covered if at in self._span else otherwise,
            )
            for at, message in enumerate(self._messages)
            if message.message_id not in there
        ]


def _cut(
    plan: ContextPlan, history: _History, strategy: Strategy, tools: Sequence[ToolSpec], now: str
) -> Compaction | None:
    """Return what to leave out before the planned request is sent; None if it fits."""
    if plan.limit is None or plan.threshold is None or plan.estimate.tokens <= plan.threshold:
        return None
    gone = _to_drop(plan.messages, strategy, _budget(plan, plan.limit, tools))
    return history.cut(gone, now=now)


def span_of(
    messages: Sequence[Message], state: ContextState | None, strategy: Strategy
) -> range | None:
    """Return where the messages stand that a state leaves out; None if it does not hold."""
    if state is None or state.strategy != strategy.name:
        return None
    start = next((at for at, m in enumerate(messages) if m.message_id == state.first_id), None)
    if start is None:
        return None
    span = range(start, start + state.count)
    if span.stop > len(messages) or messages[span.stop - 1].message_id != state.last_id:
        return None
    return span if digest_of(messages[span.start : span.stop]) == state.digest else None


def _uncounted(
    sent: Sequence[Message], tools: Sequence[ToolSpec], calibration: Calibration
) -> Estimate:
    tokens = calibration.correct(estimate_messages(sent) + estimate_tools(tools))
    return Estimate(tokens=tokens, counted=0, estimated=tokens)


def _budget(plan: ContextPlan, limit: int, tools: Sequence[ToolSpec]) -> int:
    """Return the estimated tokens that the messages may have after compaction."""
    added = estimate_messages(plan.sent) - estimate_messages(plan.messages)
    return int(limit * TARGET_SHARE / plan.calibration.factor) - estimate_tools(tools) - added


def _to_drop(sent: Sequence[Message], strategy: Strategy, budget: int) -> list[Message]:
    by_tokens = TruncateByTokens(limit=budget)
    if strategy.cut == "messages":
        by_count = TruncateHistory(max_messages=MESSAGES_LEFT)
        if estimate_messages(by_count(sent)) <= budget * TRIGGER_SHARE / TARGET_SHARE:
            return by_count.dropped(sent)
    return by_tokens.dropped(sent) if strategy.cut is not None else []


def _last_user(messages: Sequence[Message]) -> int:
    at = len(messages) - 1
    while at >= 0 and not isinstance(messages[at], UserMessage):
        at -= 1
    return at
