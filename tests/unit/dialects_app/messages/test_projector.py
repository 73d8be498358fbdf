"""Events of turns, as events of a streamed message and as a whole one."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.errors import TurnCrashed, TurnFailed
from chat.stream.events import Cancelled, Event, Failed, StatusChanged
from dialects_app.messages.answer import whole_message
from dialects_app.messages.projector import MessageProjector
from dialects_app.shared.sealed import unseal
from sessions_app.messages import Usage
from tests.unit.dialects_app.chat_completions.journals import (
    CONTINUED,
    DONE,
    STARTED,
    complete,
    ours,
    said,
    theirs,
    thought,
)
from tests.unit.dialects_app.turns import numbered

USAGE = Usage(input_tokens=20, output_tokens=30, cached_tokens=4, cache_write_tokens=6)


def stream_of(*events: Event, **how: Any) -> bytes:
    projector = MessageProjector("msg_1", "asked", input_tokens=7, **how)
    return projector.feed(numbered([STARTED, *events]))


def data_of(stream: bytes) -> list[Any]:
    """Return the data of all events, whose names they repeat, but the ping at the beginning."""
    frames = [frame.split("\n") for frame in stream.decode("ascii").split("\n\n")[:-1]]
    data = [json.loads(line.removeprefix("data: ")) for _, line in frames]
    assert [name for name, _ in frames] == [f"event: {each['type']}" for each in data]
    return [each for each in data if each["type"] != "ping"]


def kinds_of(stream: bytes) -> list[str]:
    return [each["type"] for each in data_of(stream)]


def message_of(*events: Event, **how: Any) -> Any:
    projector = MessageProjector("msg_1", "asked", input_tokens=7, **how)
    return whole_message(projector, numbered([STARTED, *events]))


def test_a_message_begins_with_its_id_and_ends_with_all_its_tokens():
    begin, *_, delta, _ = data_of(stream_of(said("Hi."), complete(turn_usage=USAGE), DONE))
    message = begin["message"]
    assert (message["id"], message["model"], message["content"]) == ("msg_1", "asked", [])
    assert message["usage"]["input_tokens"] == 7
    assert delta["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert delta["usage"] == {
        "input_tokens": 10,
        "output_tokens": 30,
        "cache_creation_input_tokens": 6,
        "cache_read_input_tokens": 4,
    }


def test_one_block_is_open_at_a_time():
    stream = stream_of(
        thought("Let me "), thought("see."), said("I "), said("look."), theirs(city="Oslo"),
        theirs(index=1), complete("tool_calls"), DONE,
    )  # fmt: skip
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    long_block = [block[0], block[1], block[1], block[2]]
    reasoning = [block[0], *[block[1]] * 3, block[2]]
    assert kinds_of(stream) == [
        "message_start", *reasoning, *long_block, *block, *block, "message_delta", "message_stop",
    ]  # fmt: skip
    indexes = [each["index"] for each in data_of(stream) if each["type"] == block[0]]
    assert indexes == [0, 1, 2, 3]


def test_the_whole_message_is_what_the_stream_shows():
    message = message_of(
        thought("Let me "), thought("see."), said("I "), said("look."), theirs(city="Oslo"),
        complete("tool_calls"), DONE,
    )  # fmt: skip
    reasoning, text, call = message["content"]
    assert (reasoning["thinking"], unseal(reasoning["signature"])) == ("Let me see.",) * 2
    assert text == {"type": "text", "text": "I look."}
    assert call == {
        "type": "tool_use",
        "id": "call_0",
        "name": "get_weather",
        "input": {"city": "Oslo"},
    }
    assert message["stop_reason"] == "tool_use"


def test_reasoning_may_be_sealed_alone():
    events = thought("Secret. \ud83e"), thought("\udd89"), said("Hi."), complete(), DONE
    assert "thinking_delta" not in stream_of(*events, shows_reasoning=False).decode()
    [reasoning, _] = message_of(*events, shows_reasoning=False)["content"]
    assert (reasoning["thinking"], unseal(reasoning["signature"])) == ("", "Secret. 🦉")


def test_calls_of_this_servers_tools_are_not_shown_and_each_round_has_its_own_blocks():
    message = message_of(said("I add."), *ours(), CONTINUED, said("It is 3."), complete(), DONE)
    assert [block["text"] for block in message["content"]] == ["I add.", "It is 3."]


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (complete("stop"), "end_turn"),
        (complete("length"), "max_tokens"),
        (
            complete("length", context_window={"current_window": 512, "usage_tokens": 512}),
            "model_context_window_exceeded",
        ),
        (
            complete("length", context_window={"current_window": 512, "usage_tokens": 90}),
            "max_tokens",
        ),
        (complete("content_filter"), "refusal"),
        (Failed(code="CONTENT_REFUSED", message="No.", details={"retryable": False}), "refusal"),
        (Failed(code="TURN_LIMIT_REACHED", message="25", details={}), "max_tokens"),
        (
            Cancelled(content="", thinking=None, model="m", message_id="1"),
            "end_turn",
        ),
    ],
)
def test_a_message_says_why_it_ended(ending, reason):
    assert message_of(said("Hi."), ending, DONE)["stop_reason"] == reason


@pytest.mark.parametrize(
    ("retryable", "kind"), [(True, "api_error"), (False, "invalid_request_error")]
)
def test_an_error_ends_the_stream_and_its_type_says_whether_to_try_again(retryable, kind):
    failed = Failed(code="NETWORK_ERROR", message="Gone.", details={"retryable": retryable})
    stream = stream_of(said("Hi."), failed, DONE)
    assert kinds_of(stream)[-2:] == ["content_block_stop", "error"]
    error = data_of(stream)[-1]
    assert error["error"]["type"] == kind
    assert error["error"]["mochi_code"] == "NETWORK_ERROR"
    assert error["request_id"].startswith("req_")
    with pytest.raises(TurnFailed) as raised:
        message_of(said("Hi."), failed, DONE)
    assert (raised.value.code, raised.value.retryable) == ("NETWORK_ERROR", retryable)


def test_a_turn_that_waits_for_an_approval_is_an_error():
    assert data_of(stream_of(DONE))[-1]["error"]["mochi_code"] == "TOOL_CONFIRMATION_REQUIRED"


def test_a_stream_without_an_end_is_no_message():
    with pytest.raises(TurnCrashed):
        message_of(said("Hi."))


def test_what_is_not_shown_keeps_the_connection_with_a_ping():
    projector = MessageProjector("msg_1", "asked", shows_reasoning=False)
    projector.feed(numbered([STARTED, thought("Hm.")]))
    assert projector.feed(numbered([StatusChanged(state="retrying"), thought("Hm.")])) == b""
    assert projector.heartbeat == b'event: ping\ndata: {"type":"ping"}\n\n'


EVENTS = st.lists(
    st.sampled_from(["a", 'q"\\', "\n\n", "é", "🦉", "\ud83e", "\udd89", "\u2028"]).flatmap(
        lambda text: st.sampled_from([said(text), thought(text)])
    ),
    max_size=12,
)


@given(EVENTS, st.integers(1, 12))
def test_the_bytes_are_the_same_however_the_events_come(events: Sequence[Event], size: int) -> None:
    journal = numbered([STARTED, *events, theirs(city="Oslo"), complete(), DONE])
    at_once = MessageProjector("msg_1", "asked").feed(journal)
    late = MessageProjector("msg_1", "asked")
    pieces = [late.feed(journal[at : at + size]) for at in range(0, len(journal), size)]
    assert b"".join(pieces) == at_once
    assert message_of(*events, theirs(city="Oslo"), complete(), DONE)["content"]
