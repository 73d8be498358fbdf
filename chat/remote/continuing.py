"""Decides whether and how the turn of a dead process goes on (docs/decisions/0179). Pure."""

import itertools
from collections.abc import Collection, Iterable, Sequence

import msgspec

from chat.approvals.decided_calls import NumberedCall
from chat.remote.replay import ReplayedTurn
from chat.remote.sealing import is_question_gone, shown_message, unsaved_answers, untold_messages
from chat.turn.resumption import Resumption
from chat.turn.turn_ids import time_of
from models_app.language_model import ModelInfo
from sessions_app.calls import calls_with_results, named_call, open_calls
from sessions_app.messages import AssistantMessage, ToolCall
from sessions_app.session import OnCrash, Session
from sessions_app.variants import find_answer
from tools_app.available_tools import AvailableTools

MOST_DEATHS = 10
"""The deaths of its processes after which a turn is sealed, with output in between or without."""


class ContinuingRules(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds within which turns of dead processes go on.

    Attributes:
        on_crash: What becomes of turns whose request and session don't say it.
        resumes: How often a turn goes on without any output in between.
        seconds: How long a turn may take, from its beginning in whichever process.
    """

    on_crash: OnCrash = "seal"
    resumes: int = 2
    seconds: float = 1800.0

    def continues(self, requested: OnCrash | None, session: Session) -> bool:
        """Return whether a turn goes on for which its request asks this, or nothing."""
        return (requested or session.metadata.on_crash or self.on_crash) == "continue"


def may_continue(
    session: Session, turn: ReplayedTurn, turn_id: str, rules: ContinuingRules, *, now: str
) -> bool:
    """Return whether a dead turn goes on; else it is sealed.

    Args:
        session: The session.
        turn: The turn, replayed from its journal.
        turn_id: The turn's id, which a journal without events lacks.
        rules: The bounds.
        now: The time; UTC, ISO 8601 with microseconds.
    """
    job = turn.job
    if job is None or not job.is_wanted:
        return False
    if not rules.continues(job.request.get("on_crash"), session):
        return False
    if turn.has_ended or turn.ending or turn.stopped or turn.suspended:
        return False
    if time_of(turn_id, earlier_seconds=-rules.seconds) <= now:
        return False
    is_used_up = turn.barren_resumes >= rules.resumes or turn.deaths >= MOST_DEATHS
    if is_used_up and not turn.was_handed_over:
        return False
    return not (_has_answer(session, turn, turn_id) or is_question_gone(session, turn))


def plan(
    session: Session,
    turn: ReplayedTurn,
    turn_id: str,
    *,
    info: ModelInfo | None,
    tools: AvailableTools,
    begun: Collection[str] = (),
) -> Resumption:
    """Return how a turn goes on for which ``may_continue`` holds.

    Args:
        session: The session.
        turn: The turn, replayed from its journal.
        turn_id: The turn's id.
        info: The facts about its model, if they are known.
        tools: The tools that it may call.
        begun: The calls that began according to the claim; the journal may have lost them.
    """
    is_saved = find_answer(session, turn.message_id or "") is not None
    shown = [shown_message(each, turn_id) for each in unsaved_answers(session, turn)]
    goes_on = not is_saved and _can_go_on(turn, info)
    is_void = turn.shows_answer and not is_saved and not goes_on
    calls, next_index = _numbered(session, turn)
    unclear, lost = _judged(session, turn, calls, tools, begun)
    return Resumption(
        attempt=turn.resumes + 1,
        reason="server_stopped" if turn.was_handed_over else "process_died",
        last_number=turn.last_number,
        first_message_id=turn.started.first_message_id,
        begun=shown.pop() if goes_on else None,
        discarded_id=turn.message_id if is_void else None,
        discarded=shown,
        calls=calls,
        next_index=next_index,
        unclear=frozenset(unclear),
        lost=frozenset(lost),
        rounds=sum(
            isinstance(message, AssistantMessage) and message.turn_id == turn_id
            for message in session.messages
        ),
        executed=turn.executed_calls,
        taken=untold_messages(session, turn, turn_id),
    )


def _has_answer(session: Session, turn: ReplayedTurn, turn_id: str) -> bool:
    """Return whether all is saved but the turn's end: nothing is left to do for the server."""
    last = session.messages[-1] if session.messages else None
    is_last = isinstance(last, AssistantMessage) and last.turn_id == turn_id
    answers = [find_answer(session, turn.message_id or ""), last if is_last else None]
    if any(isinstance(each, AssistantMessage) and not each.tool_calls for each in answers):
        return True
    calls = open_calls(session.messages)
    return bool(calls) and all(call.client_side for call in calls)


def _can_go_on(turn: ReplayedTurn, info: ModelInfo | None) -> bool:
    """Return whether the model can go on in the middle of the newest answer.

    Never in JSON that fits a schema, as its grammar would begin anew, nor after pieces of a call.
    """
    request = turn.job.request if turn.job is not None else {}
    if info is None or not turn.text or turn.shows_calls or request.get("answer_schema"):
        return False
    return info.continues_answer(request.get("think", info.default_think))


def _numbered(session: Session, turn: ReplayedTurn) -> tuple[Sequence[NumberedCall], int]:
    """Return the open calls with their numbers in the turn, and the number of the next call."""
    asked = [call for call, _ in calls_with_results(session.messages, turn.message_id or "")]
    numbers = dict(turn.call_numbers)
    numbers |= {call.id: number for number, call in enumerate(asked, turn.round.first_call_index)}
    free = itertools.count(max([turn.round.first_call_index - 1, *numbers.values()]) + 1)
    calls = [
        NumberedCall(call=call, index=numbers[call.id] if call.id in numbers else next(free))
        for call in open_calls(session.messages)
    ]
    return calls, next(free)


def _judged(
    session: Session,
    turn: ReplayedTurn,
    calls: Iterable[NumberedCall],
    tools: AvailableTools,
    begun: Collection[str],
) -> tuple[list[str], list[str]]:
    """Return the calls that may have run: those a person decides on, and those that are lost.

    Calls of tools that only read run again, once. An agent that waits for an approval goes on in
    its session; any other one would do its work again. A call that has ended with questions is
    repeated with the answers.
    """
    answers = (each for each in reversed(session.messages) if isinstance(each, AssistantMessage))
    asking_id = next((answer.message_id for answer in answers), "")
    unclear: list[str] = []
    lost: list[str] = []
    for call in (item.call for item in calls):
        starts = turn.starts.get(call.id, 0) or named_call(asking_id, call.id) in begun
        waits = call.id in turn.repeated or tools.delegates(call.name)
        waits = waits and call.id in turn.resumable_calls
        if not starts or call.client_side or waits:
            continue
        if not _only_reads(call, tools):
            unclear.append(call.id)
        elif starts > 1:
            lost.append(call.id)
    return unclear, lost


def _only_reads(call: ToolCall, tools: AvailableTools) -> bool:
    """Return whether a call can run again without a question."""
    if tools.finds_tools(call.name) or tools.reads_results(call.name):
        return True
    tool = tools.find(call.name)
    if tool is None or tool.delegated:
        return False
    # What a server calls not destructive may still change something, and do so twice.
    reads = tool.read_only or (tool.server is None and not tool.destructive)
    return reads and not tools.must_ask(call)
