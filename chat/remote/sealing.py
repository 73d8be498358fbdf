"""Seals a turn whose process died: adds to its session what clients had seen. Pure.

Everything is derived from the journal and the session file, so doing it twice, or dying half-way
and doing it again, changes nothing (docs/decisions/0004).
"""

import hashlib

from msgspec import UNSET

from chat.errors import TurnInterrupted
from chat.remote.replay import ReplayedTurn
from chat.storage.journal import line
from chat.stream.encoding import encode_event
from chat.stream.events import Cancelled, Done, Event, MessageComplete
from chat.turn.outcome import completed, failed, window_of
from sessions_app.calls import open_calls
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    Message,
    ToolMessage,
    unmark_cancelled,
)
from sessions_app.session import Session
from sessions_app.variants import extend_answer, find_answer, prefer_whole


def seal_session(session: Session, turn: ReplayedTurn, *, now: str) -> Session:
    """Return the session with what the dead turn left, or itself when it has that already."""
    unanswered = {call.id for call in open_calls(session.messages)}
    lost: list[Message] = [
        ToolMessage(
            content=INTERRUPTED_RESULT,
            message_id=_derived_id(turn.turn_id, call.call_index),
            timestamp=now,
            tool_name=call.tool_name,
            tool_call_id=call.tool_call_id,
            failed=True,
        )
        for call in turn.started_calls
        if call.tool_call_id in unanswered
    ]
    if turn.text and turn.message_id:
        lost.append(
            AssistantMessage(
                content=turn.text,
                message_id=turn.message_id,
                timestamp=now,
                model=turn.model or session.metadata.model,
                thinking=turn.thinking or None,
                interrupted=True,
            )
        )
    sealed = extend_answer(session, *lost, now=now, replaced_id=turn.replaced_id)
    return session if sealed is session else prefer_whole(sealed, now=now)


def _derived_id(turn_id: str, call_index: int) -> str:
    """Return the id that a call's sealed result has, however often it is sealed."""
    return hashlib.sha256(f"{turn_id}:{call_index}".encode()).hexdigest()[:10]


def closing_lines(session: Session, turn: ReplayedTurn, turn_id: str) -> str:
    """Return the journal lines that end a dead turn, after its session was sealed.

    The journal may have the first of them already: a process died between the two.
    """
    answer = find_answer(session, turn.message_id or "")
    done = Done(session_id=session.session_id, saved_at=answer.timestamp if answer else UNSET)
    events = (done,) if turn.ending else (_ending(session, turn, turn_id), done)
    return "".join(
        line(number, event.event, encode_event(event))
        for number, event in enumerate(events, turn.last_number + 1)
    )


def _ending(session: Session, turn: ReplayedTurn, turn_id: str) -> Event:
    """Return how the turn ended; its answer may have been saved whole before the process died."""
    answer = find_answer(session, turn.message_id or "")
    if answer is not None and answer.cancelled:
        return Cancelled(
            content=unmark_cancelled(answer.content),
            thinking=answer.thinking,
            model=answer.model,
            message_id=answer.message_id,
        )
    if answer is not None and answer.is_complete:
        return _complete(session, answer, turn, turn_id)
    return failed(TurnInterrupted())


def _complete(
    session: Session, answer: AssistantMessage, turn: ReplayedTurn, turn_id: str
) -> MessageComplete:
    return completed(
        answer,
        turn_id=turn_id,
        context_window=window_of(session, answer),
        tool_calls=turn.executed_calls,
    )
