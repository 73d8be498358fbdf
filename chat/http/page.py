"""Reads what a page shows of a session: its messages, its turn and its questions, of one moment.

What the stream of its running turn shows is left out of its messages (docs/decisions/0159).
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from django.http.response import HttpResponseBase
from pydantic import Field

from chat.approvals.confirmation import Confirmation
from chat.approvals.schemas import ConfirmationOut
from chat.approvals.service import ConfirmationService
from chat.context.history import continue_from
from chat.http.status_schemas import ActiveTurnOut
from chat.registry import TurnRegistry
from chat.remote.remote_turns import ActiveTurn, RemoteTurns
from chat.turn.turn_ids import last_turn_id
from mochi_project.http.large_json import answer_by_reading
from sessions_app.errors import SessionBusy
from sessions_app.format.to_json import many_messages, session_detail
from sessions_app.http.schemas import SessionDetailOut
from sessions_app.messages import AssistantMessage, Message, UserMessage
from sessions_app.service import SessionManager


class _Overtaken(Exception):
    """Raised if a turn began or ended while a page was read."""


MOST_READS = 100
PAUSE_SECONDS = 0.02
"""A session is read again while its turn begins or ends, so often and with such pauses: a question
is saved just before or after the claim."""


class SessionPageOut(SessionDetailOut):
    """A session with its messages, settings and state; with `view=page` all that a page shows."""

    active_turn: ActiveTurnOut | None = Field(
        None, description="`view=page`: the turn that runs, if one does"
    )
    confirmations: list[ConfirmationOut] | None = Field(
        None, description="`view=page`: the tool calls that wait for an approval, oldest first"
    )
    position: str | None = Field(
        None,
        description="`view=page`: `after` of `GET /chat/{session_id}/stream`, whose events then "
        "follow on `messages`; null if no turn runs",
    )


async def answer_with_page(
    session_id: str,
    *,
    sessions: SessionManager,
    turns: TurnRegistry,
    remote: RemoteTurns,
    confirmations: ConfirmationService,
) -> HttpResponseBase:
    """Answer with a session, without the messages that the stream of its running turn shows.

    Raises:
        SessionBusy: Turns begin and end all the time.
    """
    for _ in range(MOST_READS):
        turn = await turns.active(session_id)
        questions = await confirmations.pending(session_id)
        read = partial(_read, sessions, remote, session_id, turn, questions)
        try:
            return await answer_by_reading(read)
        except _Overtaken:
            await asyncio.sleep(PAUSE_SECONDS)
    raise SessionBusy(session_id)


def _read(
    sessions: SessionManager,
    remote: RemoteTurns,
    session_id: str,
    turn: ActiveTurn | None,
    questions: Sequence[Confirmation],
) -> dict[str, Any]:
    if turn is not None and remote.is_claiming(session_id, turn.turn_id):
        raise _Overtaken
    session = sessions.get(session_id)
    if turn is not None:
        claim = sessions.repository.claim_of(session_id)
        if claim is None or claim.turn_id != turn.turn_id:
            raise _Overtaken
    elif session.messages and not _is_answer(session.messages[-1]):
        # Either it had no answer, or its turn has just begun.
        turn_id = last_turn_id(session.messages[-1:])
        if turn_id and remote.is_writing(session_id, turn_id):
            raise _Overtaken
        if sessions.get(session_id).last_message_id != session.last_message_id:
            raise _Overtaken
    detail = session_detail(session)
    del detail["messages"]
    return {
        **detail,
        "state": "awaiting_approval" if questions else "running" if turn else "idle",
        "active_turn": None if turn is None else msgspec.structs.asdict(turn),
        "confirmations": [ConfirmationOut.of(each).model_dump() for each in questions],
        "position": f"{turn.turn_id}:0" if turn is not None and turn.turn_id else None,
        "messages": many_messages(_before(turn, session.messages)),
    }


def _is_answer(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and not message.tool_calls


def _before(turn: ActiveTurn | None, messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages that the stream of a turn does not show."""
    if turn is None:
        return messages
    before = [
        each for each in messages if each.turn_id != turn.turn_id or isinstance(each, UserMessage)
    ]
    if turn.first_message_id is None:  # it has said nothing yet, in another process
        continuation = continue_from(before, None)
        return before if continuation is None else before[: continuation.keep]
    for index, message in enumerate(before):
        if message.message_id == turn.first_message_id and isinstance(message, UserMessage):
            return before[: index + 1]
    return before
