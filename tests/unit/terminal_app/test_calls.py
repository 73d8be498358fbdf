"""Tool calls as a person is asked about them."""

from typing import Any

import pytest

from chat.stream.agent_events import AgentToolCall
from chat.stream.events import (
    ToolCallStarted,
)
from terminal_app.calls import shown_call


def call(name: str, **arguments: Any) -> ToolCallStarted:
    return ToolCallStarted(tool_name=name, arguments=arguments, call_index=0, tool_call_id="c")


def test_a_call_is_shown_as_it_is_written_in_python() -> None:
    assert shown_call(call("add", a=1, b=[2, None])) == "add(a=1, b=[2, null])"


def test_an_agents_call_names_the_agent() -> None:
    asked = AgentToolCall(
        agent_name="coder",
        tool_name="list_dir",
        arguments={},
        call_index=0,
        tool_call_id="c",
        inner_tool_call_id="i",
    )
    assert shown_call(asked) == "coder: list_dir()"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines", r'"two\nlines"'),
        ("\x1b[2K\r", r'"\u001b[2K\r"'),
        ("\x7f\x9b", r'"\u007f\u009b"'),
        ("\u202eevil", r'"\u202eevil"'),
        ("a\ufe0fb\U000e0101", r'"a\ufe0fb\udb40\udd01"'),
        ("\u3164\u115f\u034f\u2800", r'"\u3164\u115f\u034f\u2800"'),
        ("\u200b\u2060\u00ad\U000e0041", r'"\u200b\u2060\u00ad\udb40\udc41"'),
        ("\u00a0\u3000", r'"\u00a0\u3000"'),
        ("schön 東京 עברית", '"schön 東京 עברית"'),
    ],
)
def test_nothing_in_a_call_can_steer_or_mislead_the_terminal(text: str, shown: str) -> None:
    assert shown_call(call("run", text=text)) == f"run(text={shown})"
    assert "\n" not in shown_call(call("run\n", **{text: 1}))
