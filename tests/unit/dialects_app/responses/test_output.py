"""Calls in the form of their client's tools, and reasoning that its client sends back."""

from dialects_app.responses.record import SEALED_REASONING, ResponseRecord
from dialects_app.responses.tool_forms import ToolForm
from dialects_app.shared.sealed import unseal
from tests.unit.dialects_app.responses.streams import complete, projected, started
from tests.unit.dialects_app.turns import SESSION_ID, handed_over, thought

FORMS = {
    "exec": ToolForm(name="exec", is_custom=True),
    "mcp__box__read": ToolForm(name="read", namespace="mcp__box"),
}
WITH_FORMS = ResponseRecord(forms=FORMS, include=(SEALED_REASONING,))


def test_a_custom_tool_gets_its_text_and_a_namespace_is_named():
    events = projected(
        [
            started(),
            handed_over("c1", "exec", input="ls"),
            handed_over("c2", "mcp__box__read", path="x"),
            *complete("", done_reason="tool_calls"),
        ],
        WITH_FORMS,
    )
    assert [each["type"].removeprefix("response.") for each in events[2:6]] == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    assert (events[2]["item"]["input"], events[3]["delta"], events[4]["input"]) == ("", "ls", "ls")
    custom, function = events[-1]["response"]["output"]
    assert custom == {
        "id": f"ctc_{SESSION_ID}c1",
        "type": "custom_tool_call",
        "call_id": "c1",
        "name": "exec",
        "status": "completed",
        "input": "ls",
    }
    assert (function["namespace"], function["name"]) == ("mcp__box", "read")


def test_reasoning_is_sealed_where_its_client_asks_for_it():
    turn = [started(), *thought("Let me ", "think."), *complete("Hi")]
    [item] = [each for each in projected(turn, WITH_FORMS)[-1]["response"]["output"]
              if each["type"] == "reasoning"]  # fmt: skip
    assert unseal(item["encrypted_content"]) == "Let me think."
    assert "encrypted_content" not in str(projected(turn))
