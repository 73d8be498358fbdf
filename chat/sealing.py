"""What becomes of a turn whose process died: its session gets what clients had seen. Pure.

Everything is derived from the journal and the session file, so doing it twice, or dying half-way
and doing it again, changes nothing.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from chat import sse
from chat.completion import ToolCallRecord, completed, failed, window_of
from chat.errors import TurnInterrupted
from chat.events import Cancelled, Done, Event, Failed, MessageComplete
from chat.journal import Entry, line
from sessions_app.calls import open_calls
from sessions_app.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    unmark_cancelled,
)
from sessions_app.session import Session
from sessions_app.variants import extend_answer, find_answer, prefer_whole

LAST_WORDS = frozenset({MessageComplete.event, Cancelled.event, Failed.event})
INTERRUPTED_CALL = "The call was interrupted. It was not run again."


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal tells of a turn.

    Attributes:
        turn_id: The turn; empty when no client saw anything.
        message_id: The id of the answer that was being made, if any.
        replaced_id: The first message of the answer that it replaces, if any.
        text: The text of it that clients saw.
        thinking: The reasoning of it that clients saw.
        model: The session's model.
        started_calls: Payloads of the tool calls that started and have no result.
        waits_for_approval: Whether a person was asked about a call and has not answered.
        executed_calls: Entries of ``tool_calls_executed``, in the order of the results.
        last_number: The newest event's number; 0 when no client saw anything.
        last_event: That event's name.
    """

    turn_id: str
    message_id: str | None
    replaced_id: str | None = None
    text: str
    thinking: str
    model: str
    started_calls: Sequence[dict[str, Any]]
    waits_for_approval: bool
    executed_calls: Sequence[ToolCallRecord]
    last_number: int
    last_event: str


def read_remains(entries: Iterable[Entry]) -> Remains:
    """Gather what a journal tells."""
    message_id, replaced_id, model, turn_id = None, None, "", ""
    text: list[str] = []
    thinking: list[str] = []
    calls: dict[str, dict[str, Any]] = {}
    asked: set[str] = set()
    executed: list[ToolCallRecord] = []
    last_number, last_event = 0, ""
    for entry in entries:
        if entry.n:
            last_number, last_event = entry.n, entry.event
        if entry.event == "content_delta":
            text.append(entry.value()["content"])
        elif entry.event == "thinking_delta":
            thinking.append(entry.value()["content"])
        elif entry.event == "round":
            begun = entry.value()
            message_id, replaced_id = begun["message_id"], begun.get("replaced_id")
            text.clear()
            thinking.clear()
        elif entry.event == "turn_started":
            started = entry.value()
            turn_id, model = started["turn_id"], started["model"]
        elif entry.event == "tool_call":
            call = dict(entry.value())
            calls[call["tool_call_id"]] = call
            asked.discard(call["tool_call_id"])
        elif entry.event in {"agent_tool_call", "agent_tool_result"}:  # approved; denied
            asked.discard(entry.value()["tool_call_id"])
        elif entry.event == "tool_call_confirmation_required":
            asked.add(entry.value()["tool_call_id"])
        elif entry.event == "tool_result":
            result = entry.value()
            call = calls.pop(result["tool_call_id"], {})
            asked.discard(result["tool_call_id"])
            executed.append(_record({**call, **result}))
    return Remains(
        turn_id=turn_id,
        message_id=message_id,
        replaced_id=replaced_id,
        text="".join(text).strip(),
        thinking="".join(thinking).strip(),
        model=model,
        # An agent whose tool waits for an approval has started and can be resumed.
        started_calls=tuple(call for call in calls.values() if call["tool_call_id"] not in asked),
        waits_for_approval=bool(asked),
        executed_calls=tuple(executed),
        last_number=last_number,
        last_event=last_event,
    )


def _record(facts: Mapping[str, Any]) -> ToolCallRecord:
    """Put together what call and result tell; the result does not repeat the arguments."""
    return ToolCallRecord(
        tool_name=facts["tool_name"],
        tool_call_id=facts["tool_call_id"],
        call_index=facts["call_index"],
        arguments=facts.get("arguments", {}),
        success=facts["success"],
        result=facts["result"],
        error_message=facts["error_message"],
        execution_time_ms=facts["execution_time_ms"],
    )


def seal_session(session: Session, remains: Remains, *, now: str) -> Session:
    """Return the session with what the dead turn left, or itself when it has that already."""
    unanswered = {call.id for call in open_calls(session.messages)}
    lost: list[Message] = [
        ToolMessage(
            content=INTERRUPTED_CALL,
            message_id=_derived_id(remains.turn_id, call["call_index"]),
            timestamp=now,
            tool_name=call["tool_name"],
            tool_call_id=call["tool_call_id"],
        )
        for call in remains.started_calls
        if call["tool_call_id"] in unanswered
    ]
    if remains.text and remains.message_id:
        lost.append(
            AssistantMessage(
                content=remains.text,
                message_id=remains.message_id,
                timestamp=now,
                model=remains.model or session.metadata.model,
                thinking=remains.thinking or None,
                interrupted=True,
            )
        )
    sealed = extend_answer(session, *lost, now=now, replaced_id=remains.replaced_id)
    return session if sealed is session else prefer_whole(sealed, now=now)


def _derived_id(turn_id: str, call_index: int) -> str:
    """Return the id that a call's sealed result has, however often it is sealed."""
    return hashlib.sha256(f"{turn_id}:{call_index}".encode()).hexdigest()[:10]


def closing_lines(session: Session, remains: Remains, turn_id: str) -> str:
    """Return the journal lines that end a dead turn, after its session was sealed.

    Whoever wrote them may have died between the two.
    """
    done = Done(session_id=session.session_id)
    said = remains.last_event in LAST_WORDS
    events = (done,) if said else (_last_event(session, remains, turn_id), done)
    return "".join(
        line(number, event.event, sse.payload(event))
        for number, event in enumerate(events, remains.last_number + 1)
    )


def _last_event(session: Session, remains: Remains, turn_id: str) -> Event:
    """The answer may have been saved whole just before the process died: then say so."""
    answer = find_answer(session, remains.message_id or "")
    if answer is not None and answer.cancelled:
        return Cancelled(
            content=unmark_cancelled(answer.content),
            thinking=answer.thinking,
            model=answer.model,
            message_id=answer.message_id,
        )
    if answer is not None and answer.is_complete:
        return _complete(session, answer, remains, turn_id)
    return failed(TurnInterrupted())


def _complete(
    session: Session, answer: AssistantMessage, remains: Remains, turn_id: str
) -> MessageComplete:
    return completed(
        answer,
        turn_id=turn_id,
        context_window=window_of(session, answer),
        tool_calls=remains.executed_calls,
    )
