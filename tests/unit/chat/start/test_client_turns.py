"""How many turns one client may have running."""

import asyncio

import pytest

from chat.errors import TooManyTurnsOfClient
from chat.start.client_turns import ClientTurns
from chat.start.turn_limits import TurnPlaces
from chat.start.turn_request import TurnRequest
from models_app.language_model import Finished, TextDelta
from sessions_app.errors import SessionNotFound

HELLO = TurnRequest(message="hello")
WAIT = ...  # the model stays silent from here on


def test_clients_are_counted_each_for_themselves_and_forgotten_when_they_have_nothing():
    turns = ClientTurns(2)
    leave = [turns.enter("a"), turns.enter("a"), turns.enter("b")]
    with pytest.raises(TooManyTurnsOfClient, match=r"one client may \(2\)"):
        turns.enter("a")
    leave[0]()
    leave.append(turns.enter("a"))
    for call in leave[1:]:
        call()
    assert not turns._running


def test_nobody_is_counted_without_a_limit():
    turns = ClientTurns(0)
    for _ in range(3):
        turns.enter("a")
    assert not turns._running
    ClientTurns(1).enter(None)
    ClientTurns(1).enter(None)


async def test_a_client_may_come_again_when_a_turn_of_its_own_has_ended(make_house):
    house = make_house(per_client=1)
    house.model.say([TextDelta("x")], WAIT)
    turn = await house.turns.start(await house.new_session(), HELLO, client="a")
    await house.model.asked.wait()
    with pytest.raises(TooManyTurnsOfClient) as refused:
        await house.turns.start(await house.new_session(), HELLO, client="a")
    assert (refused.value.code, refused.value.retryable) == ("TOO_MANY_TURNS", True)
    assert house.turns.active_count == 1
    await house.turns.cancel(turn.session_id)
    house.model.say([TextDelta("x")], [Finished()])
    again = await house.turns.start(await house.new_session(), HELLO, client="a")
    await again.finished()


async def test_a_turn_that_could_not_start_is_not_counted(make_house):
    places = TurnPlaces(10, per_client=1)
    house = make_house(places=places)
    for _ in range(2):
        with pytest.raises(SessionNotFound):
            await house.turns.start("0123456789", HELLO, client="a")
    starting = asyncio.create_task(house.turns.start("0123456789", HELLO, client="a"))
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting])
    await asyncio.wait(house.turns._starting or [starting])
    places.take("a")
