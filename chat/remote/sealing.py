"""Seals a turn whose process died: adds to its session what clients had seen. Pure.

Everything is derived from the journal and the session file, so doing it twice, or dying half-way
and doing it again, changes nothing (docs/decisions/0004).
"""

import hashlib
from collections.abc import Collection, Sequence

import msgspec
from msgspec import UNSET

from chat.errors import TurnInterrupted
from chat.remote.replay import ReplayedTurn, ShownAnswer
from chat.storage.journal import Entry, line
from chat.stream.encoding import ascii_json, encode_event
from chat.stream.events import (
    Cancelled,
    ClientToolCall,
    ContentDelta,
    Done,
    Event,
    MessageComplete,
    MessageTaken,
    ThinkingContentDelta,
    ToolContinuationStarted,
    TurnStarted,
)
from chat.stream.notes import RoundBegan
from chat.turn.outcome import completed, failed, known_usage, taken, window_of
from chat.turn.turn_ids import time_of
from chat.turn.usage import saved_usage
from sessions_app.calls import calls_with_results, named_call, open_calls
from sessions_app.errors import MochiError
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
    unmark_cancelled,
)
from sessions_app.session import Session
from sessions_app.variants import (
    answer_start,
    extend_answer,
    find_answer,
    newest_first,
    prefer_whole,
)


def seal_session(
    session: Session, turn: ReplayedTurn, *, now: str, begun: Sequence[str] = ()
) -> Session:
    """Return the session with the dead turn's remains; the same object if it has them already.

    Args:
        session: The session.
        turn: The turn.
        now: The time.
        begun: The calls that began according to the claim; the journal may have lost them.
    """
    interrupted = _interrupted(session, turn, begun)
    lost: list[Message] = [
        ToolMessage(
            content=INTERRUPTED_RESULT,
            message_id=_derived_id(turn.turn_id, number),
            timestamp=now,
            tool_name=name,
            tool_call_id=call_id,
            turn_id=turn.turn_id or None,
            failed=True,
        )
        for call_id, name, number in [*interrupted, *_unreported_client_calls(session, turn)]
    ]
    shown = unsaved_answers(session, turn)
    if shown and not is_question_gone(session, turn):
        *earlier, newest = [shown_message(each, turn.turn_id, now) for each in shown]
        variants = tuple((message,) for message in reversed(earlier))
        lost.append(msgspec.structs.replace(newest, variants=variants) if variants else newest)
    sealed = extend_answer(session, *lost, now=now, replaced_id=turn.replaced_id)
    return session if sealed is session else prefer_whole(sealed, now=now)


def unsaved_answers(session: Session, turn: ReplayedTurn) -> list[ShownAnswer]:
    """Return the texts that clients saw and the session lacks, oldest first.

    All but the last one are void; that one is, too, if the turn asks again.
    """
    newest = ShownAnswer(
        message_id=turn.message_id or "",
        model=turn.started.model or session.metadata.model,
        text=turn.text,
        thinking=turn.thinking,
    )
    shown = [*turn.discarded, newest] if newest.text and newest.message_id else turn.discarded
    return [each for each in shown if find_answer(session, each.message_id) is None]


def shown_message(answer: ShownAnswer, turn_id: str, now: str = "") -> AssistantMessage:
    """Return an answer that broke off as a message; its time is by default that of its turn."""
    return AssistantMessage(
        content=answer.text,
        message_id=answer.message_id,
        timestamp=now or time_of(turn_id),
        model=answer.model,
        thinking=answer.thinking or None,
        interrupted=True,
        turn_id=turn_id or None,
    )


def is_question_gone(session: Session, turn: ReplayedTurn) -> bool:
    """Return whether the session lacks the message that the turn answers.

    Nobody removes it while the turn has its claim. An older copy of the file may have been put in
    its place, in which the answer would follow another question.
    """
    return turn.question_id is not None and not any(
        isinstance(each, UserMessage) and each.message_id == turn.question_id
        for each in newest_first(session.messages)
    )


def untold_messages(session: Session, turn: ReplayedTurn, turn_id: str) -> Sequence[MessageTaken]:
    """Return the events of messages that the turn took, if its process died before it sent them.

    They follow results of the turn's calls; those that its request brought don't.
    """
    own = [each for each in session.messages if each.turn_id == turn_id]
    first = next((at for at, each in enumerate(own) if _is_of_round(each, turn)), len(own))
    ids = {each.message_id for each in own[first:] if isinstance(each, UserMessage)}
    return taken(session, ids - turn.taken)


def _is_of_round(message: Message, turn: ReplayedTurn) -> bool:
    """Return whether a message of a turn is an answer, or the result of a call that it ran."""
    if isinstance(message, ToolMessage):
        return message.tool_call_id in turn.starts
    return isinstance(message, AssistantMessage)


def _interrupted(
    session: Session, turn: ReplayedTurn, begun: Collection[str]
) -> list[tuple[str, str, int | str]]:
    """Return the calls that may have run and have no result: (id, tool, number or name).

    Combines the calls in the journal and in the claim, since either may have lost some.
    """
    unanswered = open_calls(session.messages)
    ids = {call.id for call in unanswered}
    started = {call.tool_call_id: call for call in turn.started_calls if call.tool_call_id in ids}
    answers = (each for each in reversed(session.messages) if isinstance(each, AssistantMessage))
    asking_id = next((answer.message_id for answer in answers), "")
    known = started.keys() | turn.resumable_calls
    return [
        *((call.tool_call_id, call.tool_name, call.call_index) for call in started.values()),
        *(
            (call.id, call.name, name)
            for call in unanswered
            if call.id not in known and (name := named_call(asking_id, call.id)) in begun
        ),
    ]


def _unreported_client_calls(session: Session, turn: ReplayedTurn) -> list[tuple[str, str, int]]:
    """Return the client's calls for which the turn sent no event yet: (id, tool, number).

    It sends them once the calls that the server runs have ended, or wait for an approval.
    """
    calls = calls_with_results(session.messages, turn.message_id or "")
    server_runs = any(result is None and not call.client_side for call, result in calls)
    if not server_runs or turn.suspended is not None:
        return []
    return [
        (call.id, call.name, number)
        for number, (call, result) in enumerate(calls, turn.round.first_call_index)
        if result is None and call.client_side
    ]


def _derived_id(turn_id: str, number: int | str) -> str:
    """Return the id of a call's sealed result, which is the same each time it is sealed."""
    return hashlib.sha256(f"{turn_id}:{number}".encode()).hexdigest()[:10]


def closing_lines(
    session: Session, turn: ReplayedTurn, turn_id: str, error: MochiError | None = None
) -> str:
    """Return the journal lines that end a dead turn, after its session was sealed.

    The journal may have the first of them already, if a process died in between. By default the
    error, if it ends with one, is that its process died.
    """
    error = error or TurnInterrupted(resumes=turn.resumes)
    answer = find_answer(session, turn.message_id or "")
    is_suspended = turn.ending is None and turn.suspended is not None
    done = Done(
        session_id=session.session_id,
        saved_at=answer.timestamp if answer else UNSET,
        turn_usage=known_usage(saved_usage(session, turn_id)) if is_suspended else UNSET,
    )
    untold = untold_messages(session, turn, turn_id) if turn.ending is None else ()
    events = (*untold, *_last_events(session, turn, turn_id, error), done)
    return "".join(
        line(number, event.event, encode_event(event))
        for number, event in enumerate(events, turn.last_number + 1)
    )


def missing_entries(session: Session, turn: ReplayedTurn, turn_id: str) -> Sequence[Entry]:
    """Return the entries of the newest answer that the session has and the journal lacks.

    Empty for a turn without events and without a saved answer: its request can be sent again
    (docs/decisions/0106).
    """
    answers = [
        each
        for each in newest_first(session.messages)
        if isinstance(each, AssistantMessage) and each.turn_id == turn_id
    ]
    if not answers or (turn.last_number and not _lacks_only_newest(answers, turn)):
        return ()
    newest = answers[0]
    events: list[Event] = []
    if not turn.last_number:
        events.append(_first_event(session, turn_id, answers[-1]))
    elif not turn.has_gone_on:
        events.append(ToolContinuationStarted(message_id=newest.message_id))
    if newest.thinking:
        events.append(ThinkingContentDelta(content=newest.thinking))
    if text := unmark_cancelled(newest.content):
        events.append(ContentDelta(content=text))
    if turn.last_number:  # it may have begun with calls of an earlier turn
        first = turn.round.first_call_index + len(answers[1].tool_calls)
    else:
        first = sum(len(each.tool_calls) for each in answers[1:])
    began = RoundBegan(message_id=newest.message_id, model=newest.model, first_call_index=first)
    missing = [(0, began.event, ascii_json(began))]
    for number, event in enumerate(events, turn.last_number + 1):
        missing.append((number, event.event, encode_event(event)))
    return [Entry(number, name, msgspec.Raw(data.encode())) for number, name, data in missing]


def _lacks_only_newest(answers: Sequence[AssistantMessage], turn: ReplayedTurn) -> bool:
    """Return whether the journal has all of these answers except the newest, and none of that."""
    if len(answers) < 2 or turn.ending is not None or turn.suspended is not None:
        return False
    before = answers[1]
    return turn.message_id == before.message_id and turn.text.strip() == before.content.strip()


def _first_event(session: Session, turn_id: str, answer: AssistantMessage) -> TurnStarted:
    """Return the first event of the turn whose first answer this is."""
    messages = session.messages
    index = next((at for at, each in enumerate(messages) if each is answer), answer_start(messages))
    asked = next(
        (at for at in reversed(range(index)) if isinstance(messages[at], UserMessage)), None
    )
    return TurnStarted(
        turn_id=turn_id,
        session_id=session.session_id,
        model=session.metadata.model,
        message_id=answer.message_id,
        user_message_id=UNSET if asked is None else messages[asked].message_id,
        user_message_index=UNSET if asked is None else asked,
    )


def _last_events(
    session: Session, turn: ReplayedTurn, turn_id: str, error: MochiError
) -> Sequence[Event]:
    """Return the events before ``done`` that the journal lacks."""
    if turn.ending is not None:
        return ()
    calls = calls_with_results(session.messages, turn.message_id or "")
    for_client = [
        ClientToolCall(
            tool_name=call.name,
            arguments=call.arguments,
            call_index=number,
            tool_call_id=call.id,
        )
        for number, (call, _) in enumerate(calls, turn.round.first_call_index)
        if call.client_side and call.id not in turn.client_calls
    ]
    if turn.suspended is not None:
        return for_client
    ending = _ending(session, turn, turn_id, error)
    return (*for_client, ending) if isinstance(ending, MessageComplete) else (ending,)


def _is_left_to_client(session: Session, message_id: str) -> bool:
    """Return whether only calls for the client are open, and no result of those was lost."""
    calls = calls_with_results(session.messages, message_id)
    return any(call.client_side for call, _ in calls) and all(
        (result is None or result.content != INTERRUPTED_RESULT)
        if call.client_side
        else result is not None
        for call, result in calls
    )


def _ending(session: Session, turn: ReplayedTurn, turn_id: str, error: MochiError) -> Event:
    """Return the turn's final event; the whole answer may have been saved before the death."""
    answer = find_answer(session, turn.message_id or "")
    usage = saved_usage(session, turn_id)
    if answer is not None and answer.cancelled:
        return Cancelled(
            content=unmark_cancelled(answer.content),
            thinking=answer.thinking,
            model=answer.model,
            message_id=answer.message_id,
            turn_usage=known_usage(usage),
        )
    if answer is not None and (
        answer.is_complete or _is_left_to_client(session, answer.message_id)
    ):
        return completed(
            answer,
            turn_id=turn_id,
            context_window=window_of(session, answer),
            tool_calls=turn.executed_calls,
            usage=usage,
        )
    return failed(error, usage)
