"""Turns that go on after a death, and messages to running turns, as chunks of the AI SDK."""

from typing import Any

import pytest

from chat.stream.events import Event
from tests.unit.dialects_app.ai_sdk.streams import (
    WAITING,
    kinds,
    projected,
    question,
    result,
    text_of,
)
from tests.unit.dialects_app.chat_completions.journals import (
    CONTINUED,
    DONE,
    STARTED,
    complete,
    ours,
    said,
    thought,
)
from tests.unit.dialects_app.turns import chunks_of, resumed, taken


def show(*events: Event, **how: Any) -> list[Any]:
    return chunks_of(projected([STARTED, *events, DONE], **how))


def test_a_text_that_goes_on_after_a_death_stays_in_its_part() -> None:
    chunks = show(said("Hel"), resumed("m0", keeps="text"), said("lo"), complete())
    assert kinds(chunks).count("text-start") == 1
    assert text_of(chunks) == "Hello"
    (told,) = [each for each in chunks if each["type"] == "data-resumed"]
    assert (told["data"]["keeps"], told["transient"]) == ("text", True)


def test_a_discarded_text_is_named_and_the_answer_has_a_step_of_its_own() -> None:
    chunks = show(thought("Hm."), said("Thr"), resumed("m1", "m0"), said("3"), complete())
    assert kinds(chunks) == [
        "start",
        "start-step",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "text-start",
        "text-delta",
        "text-end",
        "data-resumed",
        "finish-step",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]
    (told,) = [each for each in chunks if each["type"] == "data-resumed"]
    assert told["data"]["discarded"] == ["m0"]
    assert "transient" not in told


@pytest.mark.parametrize("has_pieces", [True, False])
def test_the_answer_after_a_death_between_two_rounds_has_a_step_of_its_own(
    has_pieces: bool,
) -> None:
    later = ours(1)[0 if has_pieces else 1 :]
    live = show(*ours(), CONTINUED, *later, CONTINUED, said("3"), complete())
    again = show(*ours(), resumed("m1"), *later, CONTINUED, said("3"), complete())
    assert [each for each in again if each["type"] != "data-resumed"] == live


def test_calls_that_run_after_a_death_are_those_of_their_step() -> None:
    call, end = ours()[1], ours()[-1]
    live = show(call, end, CONTINUED, said("3"), complete())
    again = show(call, resumed("m1"), call, end, CONTINUED, said("3"), complete())
    assert [kind for kind in kinds(again) if kind != "data-resumed"] == [
        *kinds(live)[:3],
        *kinds(live)[2:],
    ]


def test_a_question_that_comes_again_waits_as_before() -> None:
    events = [STARTED, question(), WAITING, resumed("m1"), question(), WAITING, result(), DONE]
    assert kinds(chunks_of(projected(events)))[-1] == "finish"
    decided = kinds(chunks_of(projected(events, decided={"conf_0"})))
    assert decided[-3:] == ["tool-output-available", "finish-step", "finish"]
    answered = kinds(chunks_of(projected(events, answered={"conf_0"})))
    assert answered.count("tool-output-available") == 1


def test_a_message_to_a_running_turn_is_a_part_of_its_answer() -> None:
    chunks = show(*ours(), taken(), CONTINUED, said("2"), complete())
    (told,) = [each for each in chunks if each["type"] == "data-user-message"]
    assert told == {
        "type": "data-user-message",
        "id": "steer00001",
        "data": {
            "message_id": "steer00001",
            "parts": [{"type": "text", "text": "Rather 2."}],
        },
    }
