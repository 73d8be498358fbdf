"""Sealing turns that leave calls to their client: wherever they die, it is told of all or none."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from chat.remote.replay import replay
from chat.remote.sealing import closing_lines, seal_session
from chat.stream.events import ClientToolCall, Done, ToolCallStarted, TurnStarted
from sessions_app.calls import open_calls
from sessions_app.messages import INTERRUPTED_RESULT, ToolMessage
from tests.unit.chat.remote.test_sealing import (
    NOW,
    SESSION_ID,
    TURN_ID,
    Script,
    Step,
    answer,
    entries_of,
    left_behind,
    tool_result,
)


class ClientScript(Script):
    """Writes down a turn whose calls are partly the client's, in the engine's order."""

    def __init__(self, for_client: list[bool], *, first: int, suspended: bool) -> None:
        super().__init__()
        self.also = {"first_call_index": first}
        asked = answer("asked", [(True, "Wait.")], len(for_client))
        calls = [
            msgspec.structs.replace(call, client_side=side)
            for call, side in zip(asked.tool_calls, for_client, strict=True)
        ]
        asked = msgspec.structs.replace(asked, tool_calls=tuple(calls), done_reason="tool_calls")
        self.emit(TurnStarted(turn_id=TURN_ID, session_id=SESSION_ID, model="m"))
        self.round("asked", [(True, "Wait.")])
        self.steps.append(asked)
        left = [
            ClientToolCall(
                tool_name=call.name, arguments={}, call_index=index, tool_call_id=call.id
            )
            for index, call in enumerate(calls, first)
            if call.client_side
        ]
        if suspended:
            self.note("suspended", {"message_id": "asked", "confirmations": [], "tool_calls": []})
            self.emit(*left, Done(session_id=SESSION_ID))
            return
        for index, call in enumerate(calls, first):
            if not call.client_side:
                self.emit(
                    ToolCallStarted(
                        tool_name=call.name, arguments={}, call_index=index, tool_call_id=call.id
                    )
                )
        self.steps += [
            tool_result(call, f"r{index}")
            for index, call in enumerate(calls)
            if not call.client_side
        ]
        self.report(asked, *left)


@st.composite
def deaths(draw: st.DrawFn) -> tuple[list[Step], str, int]:
    """What a turn left that died somewhere, and the number of its first call."""
    first = draw(st.integers(0, 3))
    for_client = draw(st.lists(st.booleans(), min_size=1, max_size=3).filter(any))
    suspended = draw(st.booleans()) if not all(for_client) else False
    steps = ClientScript(for_client, first=first, suspended=suspended).steps
    cut = draw(st.integers(0, len(steps)))
    torn = ""
    if cut < len(steps) and isinstance(steps[cut], str):
        torn = steps[cut][: draw(st.integers(0, len(steps[cut]) - 1))]
    return steps[:cut], torn, first


@given(deaths())
def test_the_calls_of_a_client_are_all_told_and_open_or_all_closed(death):
    *left, first = death
    session, journal = left_behind(*left)
    turn = replay(entries_of(journal))
    sealed = seal_session(session, turn, now=NOW)
    assert seal_session(sealed, turn, now="2030") is sealed
    whole = journal[: journal.rfind("\n") + 1]
    if not any(entry.event == "done" for entry in entries_of(whole)):
        whole += closing_lines(sealed, turn, TURN_ID)
    events = [entry for entry in entries_of(whole) if entry.n]
    told = [entry.value() for entry in events if entry.event == "client_tool_call"]
    waiting = [call for call in open_calls(sealed.messages) if call.client_side]
    assert [it["tool_call_id"] for it in told] == [call.id for call in waiting]
    numbers = [first + int(it["tool_call_id"].removeprefix("call_")) for it in told]
    assert [it["call_index"] for it in told] == numbers
    names = [entry.event for entry in events]
    assert [entry.n for entry in events] == list(range(1, len(events) + 1))
    assert (names.count("done"), names[-1]) == (1, "done")
    suspended = turn.suspended is not None
    assert ("message_complete" in names) == (bool(told) and not suspended)
    assert ("error" in names) == (not told and not suspended)
    closed = [m for m in sealed.messages if isinstance(m, ToolMessage) and m.failed]
    assert all(m.content == INTERRUPTED_RESULT for m in closed)
