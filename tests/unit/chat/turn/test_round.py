"""The calls of a round are one list, each with a state."""

from chat.approvals.decided_calls import DecidedCall, NumberedCall
from chat.turn.round import CallState, Round
from sessions_app.messages import ToolCall


def numbered(index: int, *, client_side: bool = False) -> NumberedCall:
    call = ToolCall(id=f"c{index}", name="note", arguments={}, client_side=client_side)
    return NumberedCall(call=call, index=index)


def decided(item: NumberedCall) -> DecidedCall:
    return DecidedCall(call=item.call, index=item.index, arguments={})


def ids(calls: list[ToolCall]) -> list[str]:
    return [call.id for call in calls]


def test_the_servers_calls_are_open_and_the_others_are_left_to_the_client() -> None:
    calls = Round([numbered(0), numbered(1, client_side=True), numbered(2)])
    assert ids(calls.calls(CallState.OPEN)) == ["c0", "c2"]
    assert ids(calls.calls(CallState.LEFT_TO_CLIENT)) == ["c1"]


def test_calls_change_their_state_and_keep_their_order() -> None:
    first, second = numbered(0), numbered(1)
    calls = Round([first, second])
    calls.set([decided(second), decided(first)], CallState.ALLOWED)
    assert [item.index for item in calls.allowed()] == [0, 1]
    calls.set(calls.allowed()[:1], CallState.RUNNING)
    assert ids(calls.calls(CallState.RUNNING, CallState.ALLOWED)) == ["c0", "c1"]
    calls.set([first], CallState.ENDED)
    assert ids(calls.calls(CallState.RUNNING)) == []
    assert ids(calls.calls(CallState.ALLOWED)) == ["c1"]
