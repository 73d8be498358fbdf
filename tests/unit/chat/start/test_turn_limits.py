"""How many turns a process may have running, and how many of them one client may."""

import asyncio

import pytest

from chat.errors import TooManyTurns
from chat.start.turn_limits import TurnPlaces
from chat.start.turn_request import TurnRequest
from mochi_project.principal import acting_for
from models_app.language_model import Finished, TextDelta
from sessions_app.errors import SessionNotFound
from tests.unit.chat.inbox.conftest import Desk

HELLO = TurnRequest(message="hello")
WAIT = ...  # the model stays silent from here on


def test_a_place_that_was_given_back_can_be_taken_again() -> None:
    places = TurnPlaces(2)
    give_back = [places.take(None), places.take("a")]
    with pytest.raises(TooManyTurns):
        places.take("b")
    give_back[0]()
    places.take("b")


def test_a_client_that_is_refused_takes_no_place() -> None:
    places = TurnPlaces(2, per_client=1)
    places.take("a")
    for _ in range(3):
        with pytest.raises(TooManyTurns, match="one client may"):
            places.take("a")
    places.take("b")


def test_clients_are_counted_each_for_themselves_and_forgotten_when_they_have_nothing() -> None:
    places = TurnPlaces(10, per_client=2)
    give_back = [places.take("a"), places.take("a"), places.take("b")]
    with pytest.raises(TooManyTurns, match=r"one client may \(2\)"):
        places.take("a")
    give_back[0]()
    give_back.append(places.take("a"))
    for call in give_back[1:]:
        call()
    assert not places._taken_by


@pytest.mark.parametrize(("per_client", "client"), [(0, "a"), (1, None)])
def test_nobody_is_counted_without_a_limit_or_without_a_name(
    per_client: int, client: str | None
) -> None:
    places = TurnPlaces(3, per_client)
    for _ in range(3):
        places.take(client)
    assert not places._taken_by
    with pytest.raises(TooManyTurns):
        places.take(client)


async def test_a_client_may_come_again_when_a_turn_of_its_own_has_ended(make_house):
    house = make_house(per_client=1)
    house.model.say([TextDelta("x")], WAIT)
    turn = await house.turns.start(await house.new_session(), HELLO, client="a")
    await house.model.asked.wait()
    with pytest.raises(TooManyTurns, match="one client may") as refused:
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


@pytest.mark.parametrize(("owner", "client"), [("anna", "key:anna"), ("default", None)])
async def test_the_turns_of_queued_messages_count_for_their_owner(make_house, owner, client):
    class Counted(TurnPlaces):
        def __init__(self):
            super().__init__(10, per_client=1)
            self.clients = []

        def take(self, client):
            self.clients.append(client)
            return super().take(client)

    places = Counted()
    house = make_house(places=places)
    desk = Desk(house)
    with acting_for(owner):
        session_id = await desk.busy()
        await desk.queue(session_id, "More?")
        house.model.say_text("Yes.")
        house.model.go_on.set()
        await desk.idle(session_id, messages=4)

    assert places.clients == [None, client]
