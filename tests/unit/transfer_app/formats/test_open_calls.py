"""Open calls: each result finds the first that it may answer, however many there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.messages import ToolCall
from transfer_app.formats.open_calls import OpenCalls

NAMES = st.sampled_from(["", "a", "b", "a.b", "a.b.c", "a..b", ".a", "ab"])
IDS = st.sampled_from(["", "1", "2"])
STEPS = st.lists(st.tuples(st.booleans(), NAMES, IDS), max_size=16)


class LookedThrough:
    """Looks through all calls for the one that a result answers."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []

    def take(self, name: str, call_id: str) -> ToolCall | None:
        for index, call in enumerate(self.calls):
            is_of = not name or call.name == name or call.name.startswith(f"{name}.")
            if call.id == call_id if call_id else is_of:
                return self.calls.pop(index)
        return None


@given(STEPS)
def test_a_result_takes_the_first_call_that_it_may_answer(
    steps: list[tuple[bool, str, str]],
) -> None:
    found, expected = OpenCalls(), LookedThrough()
    for is_call, name, call_id in steps:
        if is_call:
            call = ToolCall(id=call_id, name=name, arguments={})
            found.add(call)
            expected.calls.append(call)
        else:
            assert found.take(name, call_id) is expected.take(name, call_id)


@pytest.mark.timeout(30)  # took the square of the number: minutes for this one
def test_calls_are_found_from_their_end_and_missed_at_once() -> None:
    number = 50_000
    found = OpenCalls()
    for each in range(number):
        found.add(ToolCall(id=str(each), name=f"tool.n{each}", arguments={}))
    assert not any(found.take("", f"no {each}") for each in range(number))
    assert not any(found.take(f"no {each}", "") for each in range(number))
    for each in range(number - 1, number // 2, -1):
        assert found.take("", str(each)) is not None
    for each in range(number // 2, 0, -1):
        assert found.take(f"tool.n{each}", "") is not None
    first = found.take("tool", "")
    assert first is not None
    assert first.id == "0"
    assert found.take("", "") is None
