"""Plans the next model request: messages sent, messages dropped, whether to compact first. Pure.

A history is sent whole until the estimate passes ``TRIGGER_SHARE`` of what the model can hold; then
the oldest messages are dropped, down to ``TARGET_SHARE``. That is far enough to happen rarely: a
provider that keeps what it computed of a prompt's beginning can use it in the turns between
(docs/decisions/0015). Images and PDFs of old messages go before any message does
(docs/decisions/0075).
"""

from collections.abc import Sequence

import msgspec

from chat.context.attachment_costs import TAKES_EVERYTHING, AttachmentRules, tokens_of_files
from chat.context.attachments import files_to_leave_out, with_mentions
from chat.context.processors import (
    FilterHistory,
    TruncateByTokens,
    TruncateHistory,
    with_instructions,
)
from chat.context.session_history import Compaction, DroppedMessage, SessionHistory
from chat.context.strategy import Strategy
from chat.context.tokens import (
    Calibration,
    Estimate,
    calibrate,
    estimate_messages,
    estimate_request,
    estimate_tools,
    estimate_whole,
)
from models_app.default_prompt import with_default_prompt
from sessions_app.context_state import ContextState
from sessions_app.messages import Message, ToolSpec

TRIGGER_SHARE = 0.7
TARGET_SHARE = 0.35
MESSAGES_LEFT = 40

MEASURED_MESSAGES = 256
"""Messages whose answers show a model's measure; those before say little of what is sent now."""


class ContextPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of the next request.

    Attributes:
        messages: The messages, as a model is sent them, but for its own system prompt.
        default_prompt: The model's own system prompt, which its provider adds where they have none.
        estimate: What the request costs.
        limit: Tokens that the request and its answer may take; None when it is unknown.
        calibration: The model's measure.
        state: The session's context state as far as it holds.
        compaction: The compaction to make first; None when the request can be sent.
        vendor: By whose measure images and PDFs are counted; None where there are none.
        history: What it was planned from.
        filtered: Whether kinds of messages are left out, from all over the history.
    """

    messages: Sequence[Message]
    estimate: Estimate
    limit: int | None
    calibration: Calibration
    state: ContextState | None
    history: SessionHistory
    filtered: bool = False
    default_prompt: str | None = None
    compaction: Compaction | None = None
    vendor: str | None = None

    @property
    def dropped(self) -> Sequence[DroppedMessage]:
        """The messages that are not sent, oldest first; that takes a look at all of them."""
        return self.history.dropped(self.messages, filtered=self.filtered)

    @property
    def sent(self) -> Sequence[Message]:
        """The messages that the model gets in the end."""
        return with_prompt(self.messages, self.default_prompt)

    @property
    def threshold(self) -> int | None:
        """Tokens of a request from which on messages are dropped."""
        return None if self.limit is None else int(self.limit * TRIGGER_SHARE)

    @property
    def is_too_long(self) -> bool:
        """Return whether messages have to be dropped, if the window is known."""
        return self.threshold is not None and self.estimate.tokens > self.threshold


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
    attachments: AttachmentRules = TAKES_EVERYTHING,
    changed_at: str = "",
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
        instructions: System text that comes after it, or after the session's.
        attachments: What the model takes of attachments.
        changed_at: When messages were deleted, hidden or shown: earlier counts are of others.
        now: The time (UTC, ISO 8601).
    """
    history = SessionHistory(messages, state, strategy, attachments, tools=tools)
    sent = _instructed(history.sent(), instructions, default_prompt)
    last = _measured(messages, changed_at)
    calibration = calibrate(last, model, rules=attachments, since=history.files_since)
    vendor = attachments.vendor if history.has_attachments else None
    whole, since = with_prompt(sent, default_prompt), max(history.since, changed_at)
    plan = ContextPlan(
        messages=sent,
        estimate=estimate_request(
            whole, tools, model=model, calibration=calibration, since=since, vendor=vendor
        ),
        limit=limit,
        calibration=calibration,
        state=history.state,
        history=history,
        default_prompt=default_prompt,
        vendor=vendor,
    )
    return _shortened(plan, tools, now=now)


def _measured(messages: Sequence[Message], changed_at: str) -> Sequence[Message]:
    last = messages[-MEASURED_MESSAGES:]
    return [message for message in last if message.timestamp > changed_at] if changed_at else last


def _shortened(plan: ContextPlan, tools: Sequence[ToolSpec], *, now: str) -> ContextPlan:
    """Return the plan with what has to be left out: images and PDFs first, then messages."""
    history = plan.history
    files_until = None
    if plan.vendor is not None:
        plan, files_until = _without_files(plan, history, tools)
    if history.strategy.filters and plan.is_too_long:
        fewer = FilterHistory()(plan.messages)
        if len(fewer) < len(plan.messages):
            plan = msgspec.structs.replace(_sending(plan, fewer, tools), filtered=True)
    compaction = None
    if plan.limit is not None and plan.is_too_long:
        gone = _to_drop(plan.messages, history.strategy, _budget(plan, plan.limit, tools))
        compaction = history.cut(gone, now=now)
    if files_until is not None:
        compaction = history.leave_files_out(files_until, compaction, now=now)
    return msgspec.structs.replace(plan, compaction=compaction)


def _without_files(
    plan: ContextPlan, history: SessionHistory, tools: Sequence[ToolSpec]
) -> tuple[ContextPlan, str | None]:
    """Return the plan without the images and PDFs that are too many, and up to where they go."""
    rules = history.rules
    excess = 0
    if plan.limit is not None and plan.is_too_long and history.strategy.shortens:
        # What was counted is no count of what is left then.
        whole = _sending(plan, plan.messages, tools).estimate.tokens
        excess = max(plan.estimate.tokens, whole) - int(plan.limit * TARGET_SHARE)
    until = files_to_leave_out(plan.messages, rules, plan.calibration, tokens=excess)
    if until is None:
        return plan, None
    places = [message.message_id for message in plan.messages]
    left_out = frozenset(places[: places.index(until) + 1])
    return _sending(plan, with_mentions(plan.messages, rules, left_out=left_out), tools), until


def _sending(
    plan: ContextPlan, messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> ContextPlan:
    """Return the plan with other messages, of which nothing was counted."""
    estimate = estimate_whole(
        with_prompt(messages, plan.default_prompt),
        tools,
        calibration=plan.calibration,
        vendor=plan.vendor,
    )
    return msgspec.structs.replace(plan, messages=messages, estimate=estimate)


def with_prompt(messages: Sequence[Message], prompt: str | None) -> Sequence[Message]:
    """Return the messages with the model's own system prompt, as its provider adds it."""
    return with_default_prompt(messages, prompt) if prompt else messages


def _instructed(
    messages: Sequence[Message], instructions: str | None, default_prompt: str | None
) -> Sequence[Message]:
    if not instructions:
        return messages
    return with_instructions(with_prompt(messages, default_prompt), instructions)


def _budget(plan: ContextPlan, limit: int, tools: Sequence[ToolSpec]) -> int:
    """Return the estimated tokens that the messages' texts may have after compaction."""
    added = estimate_messages(plan.sent) - estimate_messages(plan.messages)
    room = limit * TARGET_SHARE
    if plan.vendor is not None:  # what is left of images and PDFs stays with the last messages
        room -= plan.calibration.correct_files(tokens_of_files(plan.messages, plan.vendor))
    return int(room / plan.calibration.factor) - estimate_tools(tools) - added


def _to_drop(messages: Sequence[Message], strategy: Strategy, budget: int) -> list[Message]:
    by_tokens = TruncateByTokens(limit=budget)
    if strategy.cut == "messages":
        by_count = TruncateHistory(max_messages=MESSAGES_LEFT)
        if estimate_messages(by_count(messages)) <= budget * TRIGGER_SHARE / TARGET_SHARE:
            return by_count.dropped(messages)
    return by_tokens.dropped(messages) if strategy.cut is not None else []
