"""Ids say where their thing is, and whatever else is sent as an id names nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.turn.turn_ids import new_turn_id
from dialects_app.shared.ids import (
    ItemId,
    ResponseId,
    completion_id,
    conversation_id,
    created_at,
    item_id,
    read_conversation_id,
    read_item_id,
    read_response_id,
    response_id,
)

SESSION = "0123456789"
TURN = "019ab3c4d5e6deadbeef"
sessions = st.text("0123456789abcdef", min_size=10, max_size=10)
kinds = st.sampled_from(["msg", "rs", "fc", "fco", "mcp"])


def test_a_response_is_named_by_its_session_and_its_turn():
    assert response_id(SESSION, TURN) == "resp_0123456789019ab3c4d5e6deadbeef"
    assert read_response_id(response_id(SESSION, TURN)) == ResponseId(SESSION, TURN)


def test_a_new_turns_id_can_be_read_back():
    turn_id = new_turn_id()
    assert read_response_id(response_id(SESSION, turn_id)) == ResponseId(SESSION, turn_id)


def test_a_conversation_is_named_by_its_session():
    assert read_conversation_id(conversation_id(SESSION)) == SESSION


def test_a_completion_is_named_by_its_turn():
    assert completion_id(TURN) == f"chatcmpl-{TURN}"


@given(
    kinds, sessions, st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1)
)
def test_an_item_is_named_by_its_session_and_its_message_or_call(kind, session_id, name):
    made = item_id(kind, session_id, name)
    assert made.startswith(f"{kind}_")
    assert read_item_id(made) == ItemId(kind, session_id, name)


def test_a_question_is_named_without_the_prefix_of_confirmations():
    confirmation = "conf_" + "ab" * 16
    made = item_id("mcpr", SESSION, confirmation)
    assert made == f"mcpr_{SESSION}{'ab' * 16}"
    assert read_item_id(made) == ItemId("mcpr", SESSION, confirmation)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "resp_",
        f"resp_{SESSION}",
        f"resp_{SESSION}{TURN}0",
        f"resp_{SESSION}{TURN}\n",
        f"resp_{SESSION}{TURN.upper()}",
        f"conv_{SESSION}",
        f"msg_{SESSION}",
        "msg_68ab",
        "../etc",
    ],
)
def test_other_text_is_no_response(text):
    assert read_response_id(text) is None
    assert text == f"conv_{SESSION}" or read_conversation_id(text) is None
    assert text.startswith("resp_") or read_item_id(text) is None


def test_the_time_of_a_turn_is_in_its_id():
    assert created_at(f"{1_760_000_000_123:012x}deadbeef") == 1_760_000_000
