"""The first event of a turn says which user message it answers, and where that stands."""

from chat.start.turn_request import TurnRequest
from models_app.errors import OllamaError
from models_app.language_model import Finished, TextDelta
from tests.unit.chat.turns import HELLO, WAIT, Calculator, call, names, run

AGAIN = TurnRequest()


async def begun(house, session_id, request=HELLO):
    """Run a turn, and return its first event and the session's messages."""
    events, _ = await run(house, session_id, request)
    assert names(events)[0] == "turn_started"
    return events[0][1], await house.messages(session_id)


async def test_a_new_message_is_named_with_its_place(house):
    session_id = await house.new_session()
    house.model.say_text("Hi!")
    await begun(house, session_id)
    house.model.say_text("Bye!")
    started, messages = await begun(house, session_id, TurnRequest(message="And now?"))
    at = started["user_message_index"]
    assert messages[at].content == "And now?"
    assert messages[at].message_id == started["user_message_id"]
    assert messages[at + 1].message_id == started["message_id"]
    assert {message.turn_id for message in messages[at:]} == {started["turn_id"]}


async def test_the_message_of_an_answer_that_is_made_again_is_named(house):
    session_id = await house.new_session()
    for text in ("Old", "New"):
        house.model.say_text(text)
    first, _ = await begun(house, session_id)
    again, messages = await begun(house, session_id, AGAIN)
    assert again["user_message_id"] == first["user_message_id"] == messages[0].message_id
    assert again["user_message_index"] == 0


async def test_a_turn_that_goes_on_after_calls_names_no_message(make_house):
    house = make_house(Calculator())
    session_id = await house.new_session(tools=["add"])
    house.model.say([call("c1", a=1, b=2)], [Finished()])
    house.model.say(OllamaError("unexpected EOF"))
    await run(house, session_id)
    house.model.say_text("3")
    started, _ = await begun(house, session_id, AGAIN)
    assert "user_message_id" not in started
    assert "user_message_index" not in started


async def test_the_active_turn_names_the_message_it_answers(house):
    session_id = await house.new_session()
    house.model.say([TextDelta("H")], WAIT, [TextDelta("i")], [Finished()])
    turn = await house.turns.start(session_id, HELLO)
    await turn.committed()
    active = await house.turns.active(session_id)
    assert active.first_message_id == (await house.messages(session_id))[0].message_id
    house.model.go_on.set()
    await turn.finished()
