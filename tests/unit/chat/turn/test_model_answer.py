"""A model's answer: what is taken in on the way of text is what the general way makes of it."""

from hypothesis import given
from hypothesis import strategies as st

from chat.turn.model_answer import ModelAnswer
from models_app.language_model import (
    CallArgumentsDelta,
    CallDelta,
    Delta,
    TextDelta,
    ThinkingDelta,
)
from sessions_app.messages import ToolCall

TEXTS = st.sampled_from([" word", "", "<th", "ink>", "</think>", "\x00", "\n", "␄", "\ud83d", "é"])
DELTAS = st.builds(TextDelta, TEXTS) | st.builds(ThinkingDelta, TEXTS)
BATCHES = st.lists(st.lists(DELTAS, min_size=1, max_size=4), max_size=8)


@given(BATCHES)
def test_text_makes_the_same_events_on_either_way(batches: list[list[Delta]]) -> None:
    as_text, in_general = ModelAnswer("m1"), ModelAnswer("m1")
    for batch in batches:
        assert as_text.absorb_text(batch) == in_general.absorb(batch)
    assert as_text.raw_text == in_general.raw_text
    assert as_text.thinking == in_general.thinking
    assert as_text.has_output == in_general.has_output


def test_nothing_of_a_batch_with_a_call_is_taken_in_as_text() -> None:
    answer = ModelAnswer("m1")
    call = CallDelta(ToolCall(id="c1", name="echo", arguments={}))
    assert answer.absorb_text([TextDelta("said"), call]) is None
    assert (answer.raw_text, answer.calls, answer.has_output) == ("", [], False)


def call(call_id: str) -> CallDelta:
    return CallDelta(ToolCall(id=call_id, name="echo", arguments={}))


def piece(index: int, call_id: str) -> CallArgumentsDelta:
    return CallArgumentsDelta(call_index=index, call_id=call_id, name="echo", arguments="{")


def test_no_two_calls_of_a_session_have_the_same_id() -> None:
    known = {"c0"}
    first, second = ModelAnswer("m1", 0, known), ModelAnswer("m2", 3, known)
    first.absorb([call("c0"), call("c1"), call("c1"), call("")])
    second.absorb([call("c1"), call("c2")])
    ids = [each.id for each in (*first.calls, *second.calls)]
    assert len({"c0", *ids}) == 7
    assert all(ids)
    assert (ids[1], ids[5]) == ("c1", "c2")


def test_pieces_of_a_calls_arguments_have_the_id_of_the_call() -> None:
    answer = ModelAnswer("m1", 0, {"c0"})
    [told] = answer.absorb([piece(0, "c0")])
    [again, _] = [*answer.absorb([piece(0, "c0")]), answer.absorb([call("c0")])]
    [made] = answer.calls
    assert told.tool_call_id == again.tool_call_id == made.id != "c0"
