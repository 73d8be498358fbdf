"""Turns that go on after a death, and messages to running turns, as events of a response."""

import pytest

from tests.unit.dialects_app.responses.streams import complete, going_on, projected, started
from tests.unit.dialects_app.turns import called, resumed, returned, said, taken, thought


def kinds(events):
    return [event["type"].removeprefix("response.") for event in events]


def test_a_text_that_goes_on_after_a_death_is_one_item():
    goes_on = resumed("aaaaaaaaaa", keeps="text")
    events = projected([started(), *said("Hel"), goes_on, *said("lo"), *complete("Hello")])
    assert kinds(events).count("output_item.added") == 1
    (item,) = events[-1]["response"]["output"]
    assert (item["content"][0]["text"], item["status"]) == ("Hello", "completed")


def test_what_is_discarded_is_incomplete_in_the_stream_and_missing_in_the_response():
    again = resumed("bbbbbbbbbb", "aaaaaaaaaa")
    events = projected(
        [started(), *thought("Hm."), *said("Thr"), again, *thought("So."), *said("Three."),
         *complete("Three.", message_id="bbbbbbbbbb")]
    )  # fmt: skip
    ended = [each["item"] for each in events if each["type"] == "response.output_item.done"]
    assert [(each["type"], each["status"]) for each in ended] == [
        ("reasoning", "completed"),
        ("message", "incomplete"),
        ("reasoning", "completed"),
        ("message", "completed"),
    ]
    assert events[-1]["response"]["output"] == ended[2:]
    direct = [started("bbbbbbbbbb"), *thought("So."), *said("Three."),
              *complete("Three.", message_id="bbbbbbbbbb")]  # fmt: skip
    assert events[-1]["response"]["output"] == projected(direct)[-1]["response"]["output"]


def test_reasoning_that_is_discarded_is_no_part_of_the_response():
    again = resumed("bbbbbbbbbb", "aaaaaaaaaa")
    events = projected(
        [started(), *thought("Hm."), again, *said("3"), *complete("3", message_id="bbbbbbbbbb")]
    )
    assert [each["type"] for each in events[-1]["response"]["output"]] == ["message"]


@pytest.mark.parametrize("goes_on", [[resumed("bbbbbbbbbb")], [taken(), going_on()]])
def test_a_response_whose_calls_run_again_has_each_once(goes_on):
    call = called("c1", a=1)
    begun = [started(), *said("I add."), call]
    end = [returned("c1"), going_on(), *said("3"), *complete("3", message_id="bbbbbbbbbb")]
    live = projected([*begun, *end])
    again = projected([*begun, resumed("bbbbbbbbbb"), call, *end])
    between = projected([*begun, end[0], *goes_on, *end[2:]])
    assert again[-1]["response"]["output"] == live[-1]["response"]["output"]
    assert between[-1]["response"]["output"] == live[-1]["response"]["output"]
