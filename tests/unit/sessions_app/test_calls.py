"""Tool calls of a history, and the results that answer them."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.calls import call_ids, distinct_calls, open_calls, pair_calls, results_of
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

LATER = "2026-11-21T11:00:00.000000+00:00"


def user(text: str) -> UserMessage:
    return UserMessage(content=text, message_id="u", timestamp=LATER)


def calls(*ids: str, name: str = "add") -> AssistantMessage:
    return AssistantMessage(
        content="",
        message_id="a",
        timestamp=LATER,
        tool_calls=tuple(ToolCall(id=id_, name=name, arguments={}) for id_ in ids),
    )


def result(text: str, call_id: str | None = None, name: str = "add") -> ToolMessage:
    return ToolMessage(
        content=text, message_id="t", timestamp=LATER, tool_name=name, tool_call_id=call_id
    )


def contents(messages: tuple[Message, ...]) -> list[str]:
    return [message.content for message in messages]


def test_every_call_is_followed_by_its_result_in_order() -> None:
    paired = pair_calls([user("?"), calls("1", "2"), result("two", "2"), result("one", "1")])
    assert contents(paired) == ["?", "", "one", "two"]


def test_an_orphan_call_gets_a_result_that_says_so() -> None:
    paired = pair_calls([calls("1", "2"), result("one", "1"), user("Hello?")])
    assert contents(paired) == ["", "one", INTERRUPTED_RESULT, "Hello?"]
    synthesised = paired[2]
    assert isinstance(synthesised, ToolMessage)
    assert (synthesised.tool_call_id, synthesised.tool_name) == ("2", "add")


def test_results_of_older_files_are_matched_by_name_and_order() -> None:
    message = AssistantMessage(
        content="",
        message_id="a",
        timestamp=LATER,
        tool_calls=(
            ToolCall(id="1", name="add", arguments={}),
            ToolCall(id="2", name="flip", arguments={}),
            ToolCall(id="3", name="add", arguments={}),
        ),
    )
    paired = pair_calls([message, result("first"), result("heads", name="flip"), result("second")])
    assert contents(paired) == ["", "first", "heads", "second"]
    assert [getattr(item, "tool_call_id", None) for item in paired[1:]] == ["1", "2", "3"]


def test_a_result_that_nobody_asked_for_is_left_out() -> None:
    paired = pair_calls([result("stray"), calls("1"), result("one", "1"), result("again", "1")])
    assert contents(paired) == ["", "one"]


def test_calls_stay_open_until_they_are_answered() -> None:
    assert [call.id for call in open_calls([calls("1", "2"), result("one", "1")])] == ["2"]
    assert open_calls([calls("1"), result("one", "1")]) == ()
    assert open_calls([calls("1"), user("never mind")]) == ()
    assert open_calls([]) == ()


def test_the_results_of_an_answer_stand_in_the_order_of_its_calls() -> None:
    messages = [user("?"), calls("1", "2", "3"), result("three", "3"), result("one", "1")]
    found = results_of(messages, 1)
    assert [each and each.content for each in found] == ["one", None, "three"]
    assert results_of(messages, 0) == ()


_NAMES = st.sampled_from(["add", "flip", ""])
_CALLS = st.builds(ToolCall, id=st.sampled_from("123"), name=_NAMES, arguments=st.just({}))
_RESULTS = st.builds(
    result, st.text(max_size=1), st.sampled_from("123") | st.none(), _NAMES | st.just("other")
)


def looked_through(calls: Sequence[ToolCall], results: Sequence[ToolMessage]) -> list[object]:
    """Match each call by looking through all results that are left."""
    waiting = list(results)
    matched: list[object] = []
    for call in calls:
        found = None
        for index, each in enumerate(waiting):
            by_name = each.tool_call_id is None and each.tool_name in {call.name, ""}
            if each.tool_call_id == call.id or by_name:
                found = msgspec.structs.replace(waiting.pop(index), tool_call_id=call.id)
                break
        matched.append(found)
    return matched


@given(st.lists(_CALLS, min_size=1, max_size=8), st.lists(_RESULTS, max_size=12))
def test_a_call_has_the_first_result_that_answers_it(
    asked: list[ToolCall], results: list[ToolMessage]
) -> None:
    message = msgspec.structs.replace(calls(), tool_calls=tuple(asked))
    found = results_of([user("?"), message, *results, user("!")], 1)
    assert list(found) == looked_through(asked, results)


@pytest.mark.timeout(30)  # took the square of the number: minutes for this one
def test_results_of_many_calls_in_another_order_are_found_at_once() -> None:
    ids = [str(number) for number in range(20_000)]
    asked = calls(*ids)
    paired = pair_calls([asked, *(result(each, each) for each in reversed(ids))])
    assert [message.content for message in paired[1:]] == ids
    assert open_calls([asked, *(result("", f"other {each}") for each in ids)]) == asked.tool_calls


class Counted(list[Message]):
    """Messages that count how many of them were looked at, or copied."""

    looks = 0

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        self.looks += len(range(*place.indices(len(self)))) if isinstance(place, slice) else 1
        return super().__getitem__(place)


def test_each_of_many_answers_looks_at_its_own_results_only() -> None:
    messages = Counted()
    for _ in range(500):
        messages += [calls("1"), result("one", "1")]
    assert len(pair_calls(messages)) == 1000
    assert messages.looks < 5 * len(messages)


def test_calls_of_later_rounds_with_the_id_of_an_earlier_one_get_a_number() -> None:
    rounds = [
        calls("1", "1"),
        result("a", "1"),
        result("b", "1"),
        calls("1", "1_2"),
        result("c", "1"),
    ]
    distinct = distinct_calls(rounds)
    assert list(call_ids(distinct)) == ["1", "1_2", "1_3", "1_2_2"]
    assert [each.tool_call_id for each in distinct if isinstance(each, ToolMessage)] == [
        *("1", "1_2"),
        "1_3",
    ]
    assert distinct_calls(distinct) is distinct


def test_models_are_sent_every_id_once() -> None:
    round_ = [calls("1"), result("one", "1")]
    paired = pair_calls([*round_, *round_])
    assert len(set(call_ids(paired))) == 2
    assert contents(paired) == ["", "one", "", "one"]
