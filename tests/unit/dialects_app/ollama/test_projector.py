"""A turn's events as lines of Ollama's protocol."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.errors import TurnFailed
from chat.stream.events import Event
from chat.stream.numbered_event import NumberedEvent
from dialects_app.ollama.projector import LineProjector
from sessions_app.messages import Usage
from tests.unit.dialects_app.chat_completions.journals import (
    CONTINUED,
    DONE,
    MODEL,
    STARTED,
    TURN,
    cancelled,
    complete,
    failed,
    journals,
    ours,
    said,
    theirs,
    thought,
)
from tests.unit.dialects_app.turns import numbered, resumed

TIMES = Usage(input_tokens=12, output_tokens=30, first_token_ms=200, total_ms=1_200)


def projected(*events: Event, generates: bool = False) -> bytes:
    return LineProjector(TURN, MODEL, generates=generates).feed(numbered(events))


def lines(*events: Event, **how: Any) -> list[Any]:
    return [json.loads(line) for line in projected(STARTED, *events, DONE, **how).splitlines()]


def whole(*events: Event, generates: bool = False) -> dict[str, Any]:
    projector = LineProjector(TURN, MODEL, generates=generates)
    return projector.whole(numbered([STARTED, *events, DONE]))


def test_an_answer_is_a_line_for_each_piece_and_one_for_the_end() -> None:
    assert lines(said("Hel"), said("lo"), complete(turn_usage=TIMES)) == [
        {
            "model": MODEL,
            "created_at": "2025-10-17T19:25:50.661000Z",
            "message": {"role": "assistant", "content": piece},
            "done": False,
        }
        for piece in ("Hel", "lo")
    ] + [
        {
            "model": MODEL,
            "created_at": "2025-10-17T19:25:50.661000Z",
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "done_reason": "stop",
            "total_duration": 1_200_000_000,
            "load_duration": 0,
            "prompt_eval_count": 12,
            "prompt_eval_duration": 200_000_000,
            "eval_count": 30,
            "eval_duration": 1_000_000_000,
        }
    ]


def test_a_generated_text_is_a_response_instead_of_a_message() -> None:
    thinks, says, end = lines(thought("Hm."), said("Hello"), complete(), generates=True)
    assert (thinks["response"], thinks["thinking"]) == ("", "Hm.")
    assert says["response"] == "Hello"
    assert (end["response"], end["done"]) == ("", True)
    assert not any("message" in line for line in (thinks, says, end))


def test_reasoning_comes_with_an_empty_text() -> None:
    first, *_ = lines(thought("Let me "), said("Hi"), complete())
    assert first["message"] == {"role": "assistant", "content": "", "thinking": "Let me "}


def test_all_calls_of_the_client_s_tools_are_in_one_line_before_the_end() -> None:
    shown = lines(said("Hm."), theirs(city="Zürich"), theirs("look", 3), complete("tool_calls"))
    _, calls, end = shown
    assert calls["message"] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call_0",
                "function": {"index": 0, "name": "get_weather", "arguments": {"city": "Zürich"}},
            },
            {"id": "call_3", "function": {"index": 1, "name": "look", "arguments": {}}},
        ],
    }
    assert (calls["done"], end["done"], end["done_reason"]) == (False, True, "stop")


def test_calls_of_this_server_s_tools_are_not_shown_and_part_what_is_said() -> None:
    events = [thought("One."), said("Let me"), *ours(), CONTINUED, thought("Two."), said("3.")]
    message = whole(*events, complete())["message"]
    assert message == {"role": "assistant", "content": "Let me\n\n3.", "thinking": "One.\n\nTwo."}


def test_an_answer_that_goes_on_after_a_death_is_the_same() -> None:
    kept = [said("I add."), *ours(), resumed("m1"), said("Three."), complete()]
    assert whole(*kept)["message"]["content"] == "I add.\n\nThree."
    cut = [said("Hel"), resumed("m0", keeps="text"), said("lo"), complete()]
    assert whole(*cut)["message"]["content"] == "Hello"


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (complete("stop"), "stop"),
        (complete(None), "stop"),
        (complete("content_filter"), "stop"),
        (complete("length"), "length"),
        (cancelled(), "stop"),
        (failed("TURN_LIMIT_REACHED"), "length"),
    ],
)
def test_an_end_has_a_reason(end: Event, reason: str) -> None:
    assert lines(said("Hi"), end)[-1]["done_reason"] == reason
    assert whole(said("Hi"), end)["done_reason"] == reason


@pytest.mark.parametrize("end", [failed(), failed("CONTENT_REFUSED", "It broke off.")])
@pytest.mark.parametrize("generates", [False, True])
def test_an_error_is_the_last_line_and_no_end(end: Event, *, generates: bool) -> None:
    assert lines(said("Hi"), end, generates=generates)[-1] == {"error": "It broke off."}
    with pytest.raises(TurnFailed, match="It broke off") as raised:
        whole(said("Hi"), end, generates=generates)
    assert raised.value.code == getattr(end, "code", None)


def test_a_turn_that_waits_for_an_approval_ends_with_an_error_and_not_in_silence() -> None:
    assert "approval" in lines(said("Hi"))[-1]["error"]


def test_what_is_not_known_of_the_usage_counts_as_nothing() -> None:
    end = lines(said("Hi"), complete(turn_usage=Usage(first_token_ms=5)))[-1]
    assert {end[name] for name in end if name.endswith(("_duration", "_count"))} == {0}


def test_names_and_texts_can_t_break_out_of_their_line() -> None:
    projector = LineProjector(TURN, 'a"\n{"error":"\N{SNOWMAN}"}')
    stream = projector.feed(numbered([STARTED, said('"}}\r\n{"error":""}'), complete(), DONE]))
    first, _ = map(json.loads, stream.splitlines())
    assert first["model"] == 'a"\n{"error":"\N{SNOWMAN}"}'
    assert first["message"]["content"] == '"}}\r\n{"error":""}'


def test_nothing_is_sent_while_nothing_is_said() -> None:
    projector = LineProjector(TURN, MODEL)
    assert projector.feed([NumberedEvent(2, "mood", '{"mood":"good"}')]) == b""
    assert projector.opening == projector.heartbeat == b""


@given(journals(), st.booleans(), st.data())
def test_a_journal_shows_the_same_however_it_is_cut_into_pieces(
    events: list[Event], generates: bool, data: st.DataObject
) -> None:
    rest, projector = numbered(events), LineProjector(TURN, MODEL, generates=generates)
    pieces = []
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        pieces.append(projector.feed(rest[:count]))
        rest = rest[count:]
    assert b"".join(pieces) == projected(*events, generates=generates)


@given(journals())
def test_any_journal_ends_once_and_is_told_word_for_word(events: list[Event]) -> None:
    *pieces, last = [json.loads(line) for line in projected(*events).splitlines()]
    assert not any(piece["done"] for piece in pieces)
    assert last.get("done") is True or set(last) == {"error"}
    for kind, name in (("content_delta", "content"), ("thinking_delta", "thinking")):
        rounds = [""]
        for event in events:
            if event.event == "tool_continuation_start":
                rounds.append("")
            elif event.event == kind:
                rounds[-1] += getattr(event, "content", "")
        told = "".join(piece["message"].get(name, "") for piece in pieces)
        assert told == "\n\n".join(text for text in rounds if text)
