"""Builds the body of ``/sessions/{id}/context``: the next request, without calling a model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from chat.context.attachment_costs import AttachmentRules, tokens_of
from chat.context.compaction import ContextRules, plan_with
from chat.context.plan import ContextPlan, plan_request
from chat.context.session_history import DroppedMessage
from chat.context.tokens import (
    Calibration,
    estimate_message,
    estimate_text_file,
    estimate_tools,
)
from chat.context.window import WindowChoice
from sessions_app.attachments.media_type import TEXT
from sessions_app.format.json_pieces import LongList
from sessions_app.messages import AssistantMessage, Attachment, Message, ToolSpec
from sessions_app.session import Session, with_metadata

_ENTRY_BYTES = 100
_ATTACHMENT_BYTES = 200


def context_of(
    session: Session,
    *,
    rules: ContextRules,
    tools: Sequence[ToolSpec],
    window_for: Callable[[int], WindowChoice],
    now: str,
) -> dict[str, Any]:
    """Return the body of ``ContextOut``; takes a second for a session of 100,000 messages.

    Args:
        session: The session.
        rules: Facts of the model, as far as they are known just now, and settings of the session.
        tools: What would be offered.
        window_for: Chooses the window of a request of so many tokens.
        now: The time (UTC, ISO 8601).
    """
    metadata, strategy = session.metadata, rules.strategy
    plan = plan_with(rules, session.messages, session=session, tools=tools, now=now)
    will_compress = plan.compaction is not None
    if plan.compaction is not None and not plan.compaction.summarize:
        # What comes of it is known without a model.
        session = with_metadata(session, now=now, context_state=plan.compaction.state)
        plan = plan_with(rules, session.messages, session=session, tools=tools, now=now)
    places = {message.message_id: at for at, message in enumerate(session.messages)}
    return {
        "session_id": session.session_id,
        "model": metadata.model,
        "strategy": strategy.name,
        "messages": _sent(plan, session, places, rules.attachments),
        "left_out": _left_out(plan, places),
        "summary": plan.state.summary if plan.state else None,
        "tools": len(tools),
        "tool_tokens": plan.calibration.correct(estimate_tools(tools)),
        "window": window_for(plan.estimate.tokens).window,
        "limit": plan.limit,
        "threshold": plan.threshold,
        "estimate": msgspec.structs.asdict(plan.estimate),
        "last_count": _last_count(session, rules, tools, now),
        "tokens_per_estimated_token": round(plan.calibration.factor, 3),
        "will_compress": will_compress,
    }


def _sent(
    plan: ContextPlan, session: Session, places: Mapping[str, int], rules: AttachmentRules
) -> LongList:
    def shown(message: Message) -> dict[str, Any]:
        at = places.get(message.message_id)
        entry = {
            "index": at,
            "message_id": message.message_id,
            "role": message.role,
            "tokens": plan.calibration.correct(estimate_message(message)),
        }
        attached = session.messages[at].attachments if at is not None else ()
        if not attached:
            return entry
        files = [_attachment(each, message, plan.calibration, rules) for each in attached]
        own = sum(file["tokens"] for file in files if file["media_type"] != TEXT)
        return {**entry, "tokens": entry["tokens"] + own, "attachments": files}

    return LongList(plan.sent, shown, _size_of)


def _attachment(
    attachment: Attachment, message: Message, calibration: Calibration, rules: AttachmentRules
) -> dict[str, Any]:
    """Show an attachment of a message, which is the message as it is sent."""
    is_sent = attachment in message.attachments
    left_out = "too_long" if rules.takes_file(attachment) else "not_taken"
    if attachment.media_type == TEXT:
        tokens = calibration.correct(estimate_text_file(attachment))
    else:
        tokens = calibration.correct_files(tokens_of(attachment, rules.vendor))
    return {
        "id": attachment.id,
        "name": attachment.name,
        "media_type": attachment.media_type,
        "tokens": tokens if is_sent else 0,
        "left_out": None if is_sent else left_out,
    }


def _size_of(message: Message) -> int:
    return _ENTRY_BYTES + _ATTACHMENT_BYTES * len(message.attachments)


def _left_out(plan: ContextPlan, places: Mapping[str, int]) -> LongList:
    def shown(item: DroppedMessage) -> dict[str, Any]:
        return {"index": places[item.message_id], **msgspec.structs.asdict(item)}

    return LongList(plan.dropped, shown, lambda _: _ENTRY_BYTES)


def _last_count(
    session: Session, rules: ContextRules, tools: Sequence[ToolSpec], now: str
) -> dict[str, Any] | None:
    """Estimate the last counted request as if it had not been sent yet."""
    for at in range(len(session.messages) - 1, -1, -1):
        answer = session.messages[at]
        if not isinstance(answer, AssistantMessage) or not answer.prompt_eval_count:
            continue
        if answer.timestamp <= (session.metadata.history_changed_at or ""):
            return None  # it was asked with messages that are gone, or hidden by now
        state = session.metadata.context_state
        earlier = plan_request(
            session.messages[:at],
            state=state if state and state.created_at < answer.timestamp else None,
            strategy=rules.strategy,
            limit=None,
            model=answer.model,
            tools=tools,
            attachments=rules.attachments,
            default_prompt=rules.default_prompt,
            now=now,
        )
        estimated, counted = earlier.estimate.tokens, answer.prompt_eval_count
        return {
            "message_id": answer.message_id,
            "counted": counted,
            "estimated": estimated,
            "error": round((estimated - counted) / counted, 3),
        }
    return None
