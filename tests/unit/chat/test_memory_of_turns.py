"""What a turn leaves in memory: nothing that only a collection of garbage would find."""

import asyncio
import gc
import weakref

import pytest

from chat.http.event_stream import EventStreamBody
from chat.service import ChatRequest, ChatService
from chat.start.turn_request import TurnRequest
from tests.unit.chat.keys import keys_in

HELLO = ChatRequest(turn=TurnRequest(message="Hello!"), model="qwen3:14b")


@pytest.fixture
def service(house, data_dir):
    keys = keys_in(data_dir / ".mochi" / "keys")
    return ChatService(
        saved=house.space, ephemeral=house.space, keys=keys, default_model=house.default_model
    )


def garbage_of(package: str) -> list[str]:
    """Return what only a collection finds: the types of a package among it."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = {type(each) for each in gc.garbage}
    gc.garbage.clear()
    return sorted(kind.__qualname__ for kind in found if kind.__module__.startswith(package))


async def stream(service, house):
    """Run a turn to its end as a client hears it; return what of it can still be found."""
    opened = await service.open(HELLO)
    turn = house.turns.get(opened.session_id)
    pushed: list[bytes] = []
    body = EventStreamBody(opened.listener, opened.leave)
    body.sink = lambda chunk: pushed.append(chunk) is None
    pushed += [chunk async for chunk in body]
    await body.aclose()
    await turn.finished()
    return [weakref.ref(each) for each in (turn.engine, turn.engine.actions, turn.task)]


@pytest.mark.usefixtures("uncollected")
async def test_a_turn_that_has_ended_is_gone_without_a_collection(house, service):
    house.model.say_text("Hi, all of you")
    left = await stream(service, house)
    while house.turns.active_count:  # until what is called back at a turn's end was called
        await asyncio.sleep(0)

    assert [each() for each in left] == [None] * len(left)
    assert garbage_of("chat.") == []
