"""Rebuilds a response from its session after the events of its turn were deleted. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from chat.turn.usage import cost_of, usage_of_turn
from dialects_app.openai.ids import item_id
from dialects_app.responses.ending import (
    CANCELLED,
    COMPLETED,
    Ending,
    ending_of_answer,
    ending_of_error,
)
from dialects_app.responses.record import NO_END, NO_RECORD, ResponseEnd, ResponseRecord
from dialects_app.responses.resource import Resource, resource_of, seconds_of, usage_of
from dialects_app.responses.saved_items import (
    Item,
    answer_items,
    function_item,
    items_of,
    request_item,
    server_call_item,
    shown_call,
)
from sessions_app.calls import distinct_calls, results_of
from sessions_app.messages import AssistantMessage, Message, ToolCall, ToolMessage, as_it_ran
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
    answer = turn.answer
    return resource_of(
        record,
        session_id=turn.session.session_id,
        turn_id=turn.turn_id,
        model=answer.model if answer else turn.session.metadata.model,
        ending=_ending(turn, end, questions),
        output=output_of(turn, record, questions=questions),
        usage=_usage(turn),
        completed_at=seconds_of(answer.timestamp) if answer else None,
    )


def input_of(turn: SavedTurn, *, questions: Mapping[str, str]) -> list[Item]:
    """Return the input items of a response, oldest first."""
    answered = {
        result.tool_call_id: result.confirmation_id
        for result in turn.made
        if isinstance(result, ToolMessage) and result.tool_call_id and result.confirmation_id
    }
    return items_of(turn.before, turn.session.session_id, questions={**answered, **questions})


def output_of(
    turn: SavedTurn, record: ResponseRecord = NO_RECORD, *, questions: Mapping[str, str]
) -> list[Item]:
    """Return the output items of a response, in the order of its stream."""
    session_id = turn.session.session_id
    items = list(_resumed_items(turn, record))
    made = distinct_calls(turn.made)
    for index, message in enumerate(made):
        if isinstance(message, AssistantMessage):
            items += answer_items(message, session_id)
            results = results_of(made, index)
            items += _call_items(message.tool_calls, results, session_id, questions)
    return items


def _resumed_items(turn: SavedTurn, record: ResponseRecord) -> Iterator[Item]:
    """Yield the items of calls that an earlier turn left open."""
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
        if call is None:
            continue
        known = record.resumed.get(call.id)
        question = known.confirmation_id if known is not None else None
        yield server_call_item(
            shown_call(as_it_ran(call, message)),
            message,
            turn.session.session_id,
            approval_request_id=question and item_id("mcpr", turn.session.session_id, question),
        )


def _call_items(
    calls: Sequence[ToolCall],
    results: Sequence[ToolMessage | None],
    session_id: str,
    questions: Mapping[str, str],
) -> Iterator[Item]:
    pairs = [
        (call, result) for call, result in zip(calls, results, strict=True) if not call.client_side
    ]
    for call, result in pairs:
        asked = questions.get(call.id) if result is None else result.confirmation_id
        if asked is not None:
            yield request_item(shown_call(call), asked, session_id)
    for call, result in pairs:
        if result is not None or call.id not in questions:
            yield server_call_item(shown_call(as_it_ran(call, result)), result, session_id)
    for call in calls:
        if call.client_side:
            yield function_item(call, session_id)


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


def _ending(turn: SavedTurn, end: ResponseEnd, questions: Mapping[str, str]) -> Ending:
    answer = turn.answer
    if answer is not None and answer.cancelled:
        return CANCELLED
    if end.error_code is not None or answer is None or answer.interrupted:
        return ending_of_error(end.error_code, end.error_message)
    if not answer.tool_calls:
        return ending_of_answer(answer.done_reason)
    index = next(i for i, each in enumerate(turn.made) if each is answer)
    open_calls = [
        call
        for call, result in zip(answer.tool_calls, results_of(turn.made, index), strict=True)
        if result is None
    ]
    waits = any(call.client_side or call.id in questions for call in open_calls)
    return COMPLETED if waits else ending_of_error(None, "")


def _usage(turn: SavedTurn) -> dict[str, Any] | None:
    used = usage_of_turn(m.usage for m in turn.made if isinstance(m, AssistantMessage))
    if used is None:
        return None
    return usage_of(
        used.input_tokens,
        used.output_tokens,
        cached_tokens=used.cached_tokens,
        reasoning_tokens=used.reasoning_tokens,
        cost=cost_of(used),
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
