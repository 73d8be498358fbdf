"""Turns that wait for answers while what keeps questions forgets them, or can't be reached."""

import asyncio
import threading

import pytest

from chat.approvals import answers
from chat.approvals.confirmation import Decision
from models_app.language_model import Finished
from sessions_app.errors import StorageUnavailable
from tests.unit.chat.listening import read_all
from tests.unit.chat.turns import HELLO, Calculator, call


@pytest.fixture
def house(make_house, monkeypatch):
    monkeypatch.setattr(answers, "LOOK_AGAIN_SECONDS", 0.001)
    return make_house(Calculator())


async def question(house, session_id):
    async with asyncio.timeout(20):
        while not (asked := await house.confirmations.pending(session_id)):
            await asyncio.sleep(0.001)
    return asked[0].confirmation_id


async def ask(house):
    """Begin a turn that asks; return it and its session."""
    house.model.say([call("c1", a=1, b=2)], [Finished()])
    house.model.say_text("Three.")
    session_id = await house.new_session(tools=["add"], policy="always_confirm")
    return await house.turns.start(session_id, HELLO), session_id


async def results(turn):
    events = await read_all(turn.first_subscription)
    return [event.decode().result for event in events if event.name == "tool_result"]


async def test_a_question_that_was_lost_is_asked_again_under_its_id(house):
    turn, session_id = await ask(house)
    asked = await question(house, session_id)
    await asyncio.to_thread(house.confirmation_store.discard_session, session_id)
    assert await question(house, session_id) == asked
    await house.confirmations.decide(session_id, Decision(confirmation_id=asked, approved=True))
    assert await results(turn) == ["3"]


async def test_a_turn_waits_on_while_answers_can_not_be_looked_for(house, monkeypatch):
    looked, away = threading.Event(), threading.Event()
    look = house.confirmation_store.decision_of

    def decision_of(question):
        if away.is_set():
            looked.set()
            raise StorageUnavailable("away")
        return look(question)

    monkeypatch.setattr(house.confirmation_store, "decision_of", decision_of)
    turn, session_id = await ask(house)
    asked = await question(house, session_id)
    away.set()
    async with asyncio.timeout(20):
        while not looked.is_set():
            await asyncio.sleep(0.001)
    away.clear()
    await house.confirmations.decide(session_id, Decision(confirmation_id=asked, approved=True))
    assert await results(turn) == ["3"]
