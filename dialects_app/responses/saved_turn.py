"""Rebuilds a response from its session after the events of its turn were deleted. Pure."""

import sys
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET

from chat.stream.events import Done, Event, TurnStarted
from chat.turn.outcome import known_usage
from chat.turn.usage import usage_of_turn
from dialects_app.responses.output_items import Item
from dialects_app.responses.projector import ResponseProjector
from dialects_app.responses.record import NO_END, NO_RECORD, ResponseEnd, ResponseRecord
from dialects_app.responses.resource import Resource
from dialects_app.responses.saved_events import answer_events, ending_event, result_event
from dialects_app.responses.saved_items import FindForms, items_of, no_forms
from sessions_app.calls import distinct_calls, results_of
from sessions_app.messages import AssistantMessage, Message, ToolMessage
from sessions_app.session import Session


class SavedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a turn, and those before it.

    Attributes:
        session: The session.
        turn_id: The turn.
        before: The messages before the turn's output, including its input.
        made: The output of its model and tools.
    """

    session: Session
    turn_id: str
    before: Sequence[Message]
    made: Sequence[Message]

    @property
    def answer(self) -> AssistantMessage | None:
        """The last answer of its model, if any."""
        return next((m for m in reversed(self.made) if isinstance(m, AssistantMessage)), None)


def find_turn(session: Session, turn_id: str) -> SavedTurn | None:
    """Return the messages of a turn, even if replaced; None if there are none."""
    for before, messages in _histories(session):
        asked_here = _calls_of_server([*before, *messages])
        made = [message for message in messages if _is_made_by(message, turn_id, asked_here)]
        if made:
            start = next(i for i, each in enumerate(messages) if each is made[0])
            return SavedTurn(
                session=session, turn_id=turn_id, before=[*before, *messages[:start]], made=made
            )
    return None


def empty_turn(session: Session, turn_id: str) -> SavedTurn:
    """Return a turn without output."""
    told = [at for at, each in enumerate(session.messages) if each.turn_id == turn_id]
    end = told[-1] + 1 if told else len(session.messages)
    return SavedTurn(session=session, turn_id=turn_id, before=session.messages[:end], made=())


def turns_of(session: Session) -> set[str]:
    """Return the turns with messages in a session, including replaced answers."""
    return {
        turn_id
        for _, messages in _histories(session)
        for message in messages
        if (turn_id := message.turn_id)
    }


def saved_resource(
    turn: SavedTurn,
    record: ResponseRecord = NO_RECORD,
    end: ResponseEnd = NO_END,
    *,
    questions: Mapping[str, str],
) -> Resource:
    """Return the resource of a response from the messages of its turn.

    Args:
        turn: The turn.
        record: The parameters of its request.
        end: The facts about its end.
        questions: The pending confirmations of the session's calls, by call id.
    """
    questions = {**_answered_later(turn), **questions, **end.questions}
    projector = ResponseProjector(turn.session.session_id, turn.turn_id, record, after=sys.maxsize)
    projector.replay(_events(turn, end, questions))
    return projector.resource()


def input_of(
    turn: SavedTurn,
    *,
    questions: Mapping[str, str],
    forms_in: FindForms = no_forms,
) -> list[Item]:
    """Return the input items of a response, oldest first."""
    answered = {
        result.tool_call_id: result.confirmation_id
        for result in turn.made
        if isinstance(result, ToolMessage) and result.tool_call_id and result.confirmation_id
    }
    return items_of(
        turn.before,
        turn.session.session_id,
        questions={**answered, **questions},
        forms_in=forms_in,
    )


def _events(turn: SavedTurn, end: ResponseEnd, questions: Mapping[str, str]) -> Iterator[Event]:
    """Yield the events of a turn that has ended, in the order of its stream."""
    session_id, answer = turn.session.session_id, turn.answer
    model = answer.model if answer else turn.session.metadata.model
    yield TurnStarted(turn_id=turn.turn_id, session_id=session_id, model=model)
    yield from _resumed_calls(turn)
    made = distinct_calls(turn.made)
    for index, message in enumerate(made):
        if isinstance(message, AssistantMessage):
            yield from answer_events(message, results_of(made, index), questions)
    ending = _ending(turn, end, questions)
    if ending is not None:
        yield ending
    usage = usage_of_turn(m.usage for m in turn.made if isinstance(m, AssistantMessage))
    yield Done(
        session_id=session_id,
        saved_at=answer.timestamp if answer else UNSET,
        turn_usage=known_usage(usage),
    )


def _resumed_calls(turn: SavedTurn) -> Iterator[Event]:
    """Yield the results of calls that an earlier turn left open."""
    asked = {
        call.id: call
        for message in turn.before
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    for message in turn.made:
        if not isinstance(message, ToolMessage):
            break
        call = asked.get(message.tool_call_id or "")
        if call is not None:
            yield result_event(call, message)


def _answered_later(turn: SavedTurn) -> Mapping[str, str]:
    """Return the approval requests of a turn that were decided in a later one, by call id."""
    messages, answer = turn.session.messages, turn.answer
    index = next((i for i, each in enumerate(messages) if each is answer), None)
    if answer is None or index is None:
        return {}
    return {
        call.id: result.confirmation_id
        for call, result in zip(answer.tool_calls, results_of(messages, index), strict=True)
        if result is not None and result.confirmation_id is not None
    }


def _ending(turn: SavedTurn, end: ResponseEnd, questions: Mapping[str, str]) -> Event | None:
    """Return the event of a turn's end; None if calls wait for their client or an approval."""
    answer = turn.answer
    is_over = answer is None or answer.cancelled or answer.interrupted or not answer.tool_calls
    if answer is not None and end.error_code is None and not is_over:
        index = next(at for at, each in enumerate(turn.made) if each is answer)
        pairs = zip(answer.tool_calls, results_of(turn.made, index), strict=True)
        waiting = (call for call, result in pairs if result is None)
        if any(call.client_side or call.id in questions for call in waiting):
            return None
        answer = None  # it broke off
    return ending_event(
        answer,
        error_code=end.error_code,
        error_message=end.error_message,
        is_retryable=end.is_retryable,
    )


def _histories(session: Session) -> Iterator[tuple[Sequence[Message], Sequence[Message]]]:
    """Yield the message history, and one for each replaced answer."""
    yield (), session.messages
    for index, message in enumerate(session.messages):
        if isinstance(message, AssistantMessage):
            for variant in message.variants:
                yield session.messages[:index], variant


def _calls_of_server(messages: Sequence[Message]) -> set[str]:
    """Return the calls of turns for this server, without those in clients' input."""
    return {
        call.id
        for message in messages
        if isinstance(message, AssistantMessage) and message.turn_id
        for call in message.tool_calls
        if not call.client_side
    }


def _is_made_by(message: Message, turn_id: str, asked_here: set[str]) -> bool:
    """Return whether a message is output of a turn; results from its client are input."""
    if message.turn_id != turn_id:
        return False
    if isinstance(message, ToolMessage):
        return message.tool_call_id in asked_here
    return isinstance(message, AssistantMessage)
