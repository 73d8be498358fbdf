"""The windows that turns ask for, by what is loaded."""

import asyncio

from models_app.language_model import Finished, TextDelta
from models_app.window_sizes import LoadedWindow
from tests.unit.chat.turns import run


async def test_a_turn_asks_for_the_window_that_is_loaded(house):
    house.preparer.models.loaded = LoadedWindow(window=4096)
    house.model.say_text("Hello")
    session_id = await house.new_session()
    _, outcome = await run(house, session_id)
    assert house.model.requests[0].context_window == 4096
    assert outcome.context_window["current_window"] == 4096
    assert outcome.context_window["reason"] == "loaded"

    window = (await asyncio.to_thread(house.sessions.get, session_id)).window
    assert (window.current_window, window.last_adjustment) == (4096, "loaded")


async def test_an_answer_that_fills_a_loaded_window_goes_on_in_a_larger_one(house):
    house.preparer.models.loaded = LoadedWindow(window=4096)
    house.model.say([TextDelta("One, ")], [Finished("length", 4000, 94)])
    house.model.say([TextDelta("two.")], [Finished("stop", 4096, 10)])
    await run(house, await house.new_session())
    assert [request.context_window for request in house.model.requests] == [4096, 8192]


async def test_a_window_set_by_hand_is_asked_for_without_a_look_at_the_loaded_one(house):
    house.preparer.models.loaded = LoadedWindow(window=4096)
    house.model.say_text("Hello")
    session_id = await house.new_session()
    await asyncio.to_thread(house.sessions.update, session_id, context_window=2048)
    await run(house, session_id)
    assert house.model.requests[0].context_window == 2048
