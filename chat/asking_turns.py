"""Finds turns that go on while a server asks a person who hears of it by other requests only."""

import asyncio
from functools import partial

import msgspec

from chat.approvals.confirmation import Confirmation
from chat.service import ChatRequest, OpenTurn, SessionSpace, listen_to
from chat.turn.outcome import Outcome
from chat.turn.state_machine import State

LOOK_SECONDS = 0.5
"""The interval at which a request looks whether a turn of another process asks."""


async def turn_that_asks(space: SessionSpace, request: ChatRequest) -> OpenTurn | None:
    """Return the running turn of a request to go on, if a running call of it has asked a person.

    The decisions of the request are recorded.

    Raises:
        MochiError: By a decision.
    """
    session_id, turn = request.session_id, request.turn
    brings = turn.message is not None or turn.messages or turn.rewind is not None
    if session_id is None or request.new is not None or brings:
        return None
    active = await space.turns.active(session_id)
    if active is None:
        return None
    asked = [
        *await space.confirmations.pending(session_id),
        *await space.confirmations.answered(session_id),
    ]
    if not any(_is_of_running_call(each, active.turn_id) for each in asked):
        return None
    for decision in turn.decisions:
        await space.confirmations.decide(session_id, decision, repeatable=True)
    opened = await listen_to(space, session_id, active.turn_id)
    if opened is None or space.turns.get(session_id) is not None:
        return opened
    return msgspec.structs.replace(opened, finished=partial(_ended_or_asking, space, opened))


async def _ended_or_asking(space: SessionSpace, opened: OpenTurn) -> Outcome:
    """Wait for the end of a turn of another process, or until it asks."""
    ending = asyncio.ensure_future(opened.finished())
    try:
        while True:
            await asyncio.wait([ending], timeout=LOOK_SECONDS)
            if ending.done():
                return ending.result()
            pending = await space.confirmations.pending(opened.session_id)
            asked = [each for each in pending if _is_of_running_call(each, opened.turn_id)]
            if asked:
                return Outcome(state=State.SUSPENDED, confirmations=asked)
    finally:
        ending.cancel()


def _is_of_running_call(question: Confirmation, turn_id: str) -> bool:
    is_of_turn = question.turn_id == turn_id
    return is_of_turn and question.kind != "call" and question.retry is None
