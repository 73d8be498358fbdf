"""Bodies that Codex 0.171 has sent, with their texts shortened, are read as it means them."""

import json
from pathlib import Path
from typing import Any

import pytest

from dialects_app.responses.body import ResponseIn
from dialects_app.responses.items import parse_input
from dialects_app.responses.request import read_request
from dialects_app.shared.body import convert_body
from dialects_app.shared.sealed import MOST_BYTES, seal
from sessions_app.errors import ValidationFailed
from sessions_app.messages import AssistantMessage, Message, ToolCall, ToolMessage
from tests.unit.dialects_app.responses.parsed_messages import calls, said

BODIES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("codex_bodies.json").read_text("utf-8")
)
PLAIN = ["exec_command", "write_stdin", "request_user_input"]


def offered(name: str) -> list[str]:
    return [spec.name for spec in read_request(body_of(name)).tools.client]


def body_of(name: str) -> ResponseIn:
    return convert_body(BODIES[name], ResponseIn)


def round_of(messages: list[Message]) -> tuple[ToolCall, str]:
    *_, answer, result = messages
    assert isinstance(answer, AssistantMessage)
    assert isinstance(result, ToolMessage)
    [call] = answer.tool_calls
    assert call.id == result.tool_call_id
    return call, result.content


@pytest.mark.parametrize("name", BODIES)
def test_every_body_is_taken(name):
    parsed = read_request(body_of(name))
    assert parsed.turn.client_tools
    assert not [each for each in parsed.warnings if each.startswith("include")]
    assert parse_input(BODIES[name]["input"]).messages


def test_a_model_that_codex_does_not_know_gets_functions_and_namespaces():
    names = offered("an unknown model")
    assert names[:3] == PLAIN
    assert "multi_agent_v1__spawn_agent" in names
    [warning] = read_request(body_of("an unknown model")).warnings
    assert warning == "tools[8]: web_search is not available here"
    call, result = round_of([*parse_input(BODIES["an unknown model"]["input"]).messages])
    assert (call.name, call.arguments) == ("exec_command", {"cmd": "echo hello > made.txt"})
    assert result.startswith("Chunk ID")


def test_models_of_openai_edit_files_with_a_custom_tool():
    parsed = read_request(body_of("gpt-5.5"))
    assert parsed.tools.forms["apply_patch"].is_custom
    call, _ = round_of([*parse_input(BODIES["gpt-5.5"]["input"]).messages])
    assert call.name == "apply_patch"
    assert call.arguments["input"].startswith("*** Begin Patch")


def test_the_newest_have_their_tools_in_the_input():
    assert "tools" not in BODIES["gpt-6-luna"]
    assert offered("gpt-6-luna")[0] == "exec"
    parsed = parse_input(BODIES["gpt-6-luna"]["input"])
    call, result = round_of([*parsed.messages])
    assert (call.name, parsed.left_out) == ("exec", ())
    assert result.startswith("Script completed")


def test_what_codex_has_compacted_is_a_record_in_its_place():
    *before, record = BODIES["after a compaction"]["input"]
    ours = {**record, "encrypted_content": seal("Ada made a file.")}
    assert parse_input([*before, ours]).messages[-1].content.endswith("Ada made a file.")
    foreign = parse_input([*before, record])
    assert foreign.left_out == (f"input[{len(before)}]: compaction is of another server",)


def call_of(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def output_of(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "3"}


def refused_field(items: list[dict[str, Any]]) -> str:
    """Return the path of what is refused where items are added to a conversation."""
    with pytest.raises(ValidationFailed) as refused:
        parse_input(items, is_whole=False)
    field: str = refused.value.details["field"]
    return field


# --- Items ---------------------------------------------------------------------------------------


def test_reasoning_comes_back_by_its_seal_and_another_servers_by_its_summary() -> None:
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "In short"}]}
    hi = {"role": "assistant", "content": "Hi"}
    for sealed, thinking in ((seal("All of it"), "All of it"), ("gAAAA", "In short")):
        [answer] = parse_input([{**item, "encrypted_content": sealed}, hi]).messages
        assert said([answer]) == [("AssistantMessage", "Hi", thinking)]


def test_a_custom_call_is_one_of_a_function_with_a_text() -> None:
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": "ls"}
    result = {"type": "custom_tool_call_output", "call_id": "c1", "output": "made.txt"}
    [answer, output_] = parse_input([{**call, "namespace": "mcp__box"}, result]).messages
    assert said([answer]) == [
        ("AssistantMessage", "", None, ("c1", "mcp__box__exec", {"input": "ls"}, True))
    ]
    assert output_.content == "made.txt"


def test_a_call_of_a_namespace_has_the_name_that_was_offered() -> None:
    [answer, _] = parse_input([{**call_of("c1"), "namespace": "mcp__a"}, output_of("c1")]).messages
    assert calls(answer)[0].name == "mcp__a__f"


def test_what_only_other_servers_know_is_left_out_with_the_output_of_its_call() -> None:
    hello = {"role": "user", "content": "Hello!"}
    built_in = {"type": "local_shell_call", "call_id": "c1", "action": {}}
    parsed = parse_input([hello, built_in, output_of("c1"), {"type": "web_search_call", "id": "w"}])
    assert said(parsed.messages) == [("UserMessage", "Hello!", None)]
    assert parsed.left_out == (
        "input[1]: local_shell_call is not taken",
        "input[3]: web_search_call is not taken",
    )
    assert refused_field([hello, built_in]) == "input[1].type"


def test_a_record_of_the_last_release_is_read_and_another_servers_is_left_out() -> None:
    for content in ("mochi.record:Ada was here.", seal("Ada was here.")):
        [record] = parse_input([{"type": "compaction", "encrypted_content": content}]).messages
        assert record.content.endswith("Ada was here.")
    foreign = {"type": "compaction", "encrypted_content": "gAAAA"}
    assert parse_input([foreign]).messages == []
    assert refused_field([foreign]) == "input[0].encrypted_content"


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"type": "custom_tool_call", "call_id": "c", "name": "f"}, "input"),
        ({"type": "custom_tool_call", "call_id": "c", "input": ""}, "name"),
        ({"type": "custom_tool_call", "name": "f", "input": ""}, "call_id"),
        ({"type": "custom_tool_call_output", "call_id": "c"}, "output"),
        ({"type": "compaction"}, "encrypted_content"),
    ],
)
def test_an_item_that_makes_no_sense_is_refused_by_its_path(item, field):
    assert refused_field([item]) == f"input[0].{field}"


def test_sealed_reasoning_comes_back_within_the_tool_loop_alone_and_not_without_end() -> None:
    def reasons(*texts: str) -> list[dict[str, Any]]:
        return [
            {"type": "reasoning", "summary": [], "encrypted_content": seal(text)} for text in texts
        ]

    hello = {"role": "user", "content": "Hello!"}
    answer = {"role": "assistant", "content": "Hi"}
    parsed = parse_input([hello, *reasons("Old."), answer, hello, *reasons("New."), answer])
    assert [thinking for _, _, thinking in said(parsed.messages)] == [None, None, None, "New."]
    many = parse_input([hello, *reasons(*["a" * MOST_BYTES] * 3), answer])
    assert said(many.messages)[-1] == ("AssistantMessage", "Hi", "a" * MOST_BYTES)
