"""Requests that only the first model call refuses: they leave the session as it was."""

import asyncio

import pytest

from models_app.errors import REQUEST_REFUSALS, CallRefused, OllamaError
from sessions_app.errors import MochiError
from sessions_app.labels import with_labels
from tests.unit.chat.turns import HELLO, run


async def refusal_of(turns, session_id, request=HELLO):
    turn = await turns.start(session_id, request)
    with pytest.raises(MochiError) as refused:
        await turn.committed()
    await turn.finished()
    return refused.value


@pytest.mark.parametrize("error", REQUEST_REFUSALS)
async def test_a_request_that_the_first_call_refuses_leaves_nothing(house, error):
    house.model.say_text("Hi.")
    session_id = await house.new_session()
    await run(house, session_id)
    before = await asyncio.to_thread(house.sessions.get, session_id)
    house.model.say(error("No."))

    refused = await refusal_of(house.turns, session_id)

    assert refused.details["message_saved"] is False
    assert await asyncio.to_thread(house.sessions.get, session_id) == before
    house.model.say_text("Hi.")
    await run(house, session_id)
    assert [message.role for message in await house.messages(session_id)] == [
        *("user", "assistant", "user", "assistant"),
    ]


async def test_what_others_changed_meanwhile_stays(house):
    session_id = await house.new_session()
    house.model.say(..., CallRefused("The budget is used up."))
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    await asyncio.to_thread(
        house.repository.update, session_id, lambda found: with_labels(found, pinned=True)
    )
    house.model.go_on.set()
    with pytest.raises(CallRefused):
        await turn.committed()
    await turn.finished()
    session = await asyncio.to_thread(house.sessions.get, session_id)
    assert (session.messages, session.metadata.pinned) == ((), True)


async def test_a_message_that_is_answered_anew_stays_where_the_budget_is_used_up(house):
    session_id = await house.new_session()
    house.model.say(OllamaError("down"))
    await refusal_of(house.turns, session_id)
    house.model.say(CallRefused("The budget is used up."))

    refused = await refusal_of(house.turns, session_id)

    assert refused.details["message_saved"] is True
    assert len(await house.messages(session_id)) == 1
