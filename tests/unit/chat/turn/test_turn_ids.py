"""The ids of a session's turns have the order of its turns, whatever clocks say."""

import asyncio
from unittest.mock import patch

import pytest

from chat.turn import turn_ids
from chat.turn.turn_ids import last_turn_id, new_turn_id
from sessions_app.messages import UserMessage
from tests.unit.chat.turns import run


async def test_turns_are_in_order_though_the_clock_is_set_back_and_journals_are_gone(house):
    session_id = await house.new_session()
    for now in (2 * 10**18, 10**18):
        house.model.say_text("Hi.")
        with patch.object(turn_ids.time, "time_ns", lambda now=now: now):
            await run(house, session_id)
        for turn_id in await asyncio.to_thread(house.journal.turns, session_id):
            await asyncio.to_thread(house.journal.discard, session_id, turn_id)
    first, _, second, _ = [each.turn_id for each in await house.messages(session_id)]
    assert first < second


@pytest.mark.parametrize("turn_id", [None, "", "turn", "f" * 20, "0" * 19, "0" * 21])
def test_ids_that_no_server_made_are_passed_over(turn_id):
    def said(turn_id):
        return UserMessage(content="x", message_id="1", timestamp="t", turn_id=turn_id)

    known = new_turn_id()
    assert last_turn_id([said(new_turn_id()), said(known), said(turn_id)]) == known
    assert last_turn_id([said(turn_id)]) == ""
