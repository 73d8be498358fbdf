"""Calls and results are shown alike in all protocols."""

import pytest

from chat.approvals.confirmation import Confirmation
from chat.stream.events import FinishedCall
from dialects_app.shared.shown_calls import questions_of, result_text, shown_call
from sessions_app.messages import ToolCall


@pytest.mark.parametrize(
    ("arguments", "name", "shown"),
    [
        ({"agent": "clerk", "instruction": "Go"}, "clerk", {"instruction": "Go"}),
        ({"agent": "clerk"}, "clerk", {"instruction": ""}),
        ({"agent": 1}, "agent", {"agent": 1}),
    ],
)
def test_a_call_of_an_agent_has_its_name(arguments, name, shown):
    call = shown_call(ToolCall(id="c1", name="agent", arguments=arguments))
    assert (call.id, call.name, call.arguments) == ("c1", name, shown)


def test_another_call_is_shown_as_it_is():
    call = ToolCall(id="c1", name="note", arguments={"agent": "clerk"})
    assert shown_call(call) == call


@pytest.mark.parametrize(("result", "text"), [("3", "3"), (None, "Error: It broke.")])
def test_a_failed_call_says_so_as_in_the_session(result, text):
    call = FinishedCall(
        tool_name="add",
        tool_call_id="c1",
        call_index=0,
        arguments={},
        success=result is not None,
        result=result,
        error_message=None if result is not None else "It broke.",
        execution_time_ms=1.0,
    )
    assert result_text(call.event()) == text


def test_questions_are_those_of_the_sessions_own_calls():
    asked = {
        "session_id": "s",
        "message_id": "m",
        "call_index": 0,
        "tool_name": "add",
        "arguments": {},
        "arguments_hash": "",
        "turn_id": "t",
        "created_at": "",
        "expires_at": "",
    }
    pending = [
        Confirmation(confirmation_id="conf_1", tool_call_id="c1", **asked),
        Confirmation(confirmation_id="conf_2", tool_call_id="c2", agent_name="clerk", **asked),
    ]
    assert questions_of(pending) == {"c1": "conf_1"}
