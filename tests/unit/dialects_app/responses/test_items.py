"""What clients send as input becomes messages; what we emitted becomes what it was made from."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.errors import MissingToolResult
from dialects_app.responses.errors import ItemNotFound
from dialects_app.responses.items import parse_input, referenced_sessions
from dialects_app.responses.output_items import request_item
from dialects_app.responses.saved_items import items_of
from dialects_app.shared.ids import item_id
from sessions_app.errors import MochiError, ValidationFailed
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tests.unit.dialects_app.responses.parsed_messages import SESSION, calls, ids, said

QUESTION = "conf_" + "ab" * 16
REQUEST = item_id("mcpr", SESSION, QUESTION)


def refused(value: Any, **options: Any) -> tuple[str, str]:
    with pytest.raises(ValidationFailed) as info:
        parse_input(value, **options)
    return info.value.details["field"], info.value.message


def function(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id: str, text: Any = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def test_a_text_is_what_the_user_says() -> None:
    parsed = parse_input("Hello!")
    assert said(parsed.messages) == [("UserMessage", "Hello!", None)]
    assert parsed.messages[parsed.new_from :] == parsed.messages


@pytest.mark.parametrize("kind", [{"type": "message"}, {}])
@pytest.mark.parametrize(
    ("role", "message"),
    [("user", "UserMessage"), ("system", "SystemMessage"), ("developer", "SystemMessage")],
)
def test_a_message_may_be_without_its_type_and_of_several_parts(
    kind: dict[str, str], role: str, message: str
) -> None:
    parts = [{"type": "input_text", "text": "One"}, {"type": "input_text", "text": "Two"}]
    parsed = parse_input([{**kind, "role": role, "content": parts}])
    assert said(parsed.messages) == [(message, "One\nTwo", None)]


def test_an_answer_is_its_reasoning_its_text_and_its_calls() -> None:
    parsed = parse_input(
        [
            {"role": "user", "content": "Go"},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Hm"}],
            },
            {"role": "assistant", "content": [{"type": "output_text", "text": "Calling."}]},
            function("c1", "add", '{"a":1}'),
            function("c2", "add", ""),
            output("c2", "two"),
            output("c1", [{"type": "input_text", "text": "one"}]),
            {"role": "user", "content": "And?"},
        ]
    )
    assert said(parsed.messages) == [
        ("UserMessage", "Go", None),
        (
            "AssistantMessage",
            "Calling.",
            "Hm",
            ("c1", "add", {"a": 1}, True),
            ("c2", "add", {}, True),
        ),
        ("ToolMessage", "one", None, "c1", False),
        ("ToolMessage", "two", None, "c2", False),
        ("UserMessage", "And?", None),
    ]
    assert said(parsed.messages[parsed.new_from :]) == [("UserMessage", "And?", None)]


def test_a_call_after_outputs_is_of_the_next_round() -> None:
    parsed = parse_input([function("c1"), output("c1"), function("c2"), output("c2")])
    assert [type(message).__name__ for message in parsed.messages] == [
        *("AssistantMessage", "ToolMessage"),
        *("AssistantMessage", "ToolMessage"),
    ]


def test_a_model_may_count_its_calls_anew_in_every_round() -> None:
    round_ = [function("c1"), output("c1")]
    parsed = parse_input([*round_, *round_])
    assert [type(message).__name__ for message in parsed.messages] == [
        *("AssistantMessage", "ToolMessage"),
        *("AssistantMessage", "ToolMessage"),
    ]
    items = items_of(parsed.messages, SESSION)
    assert len({item["id"] for item in items}) == 4
    assert len(said(parse_input(items).messages)) == 4


def test_reasoning_that_says_nothing_is_no_answer() -> None:
    encrypted = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    hello = {"role": "user", "content": "Hello!"}
    assert len(parse_input([hello, encrypted, hello]).messages) == 2
    said_more = parse_input([encrypted, {"role": "assistant", "content": "Hi"}])
    assert said(said_more.messages) == [("AssistantMessage", "Hi", None)]


def test_two_texts_of_the_assistant_are_two_answers() -> None:
    answers = [{"role": "assistant", "content": "One"}, {"role": "assistant", "content": "Two"}]
    assert [message.content for message in parse_input(answers).messages] == ["One", "Two"]


def test_arguments_that_are_no_object_enter_the_conversation() -> None:
    [answer, _] = parse_input([function("c1", "f", "{oops"), output("c1")]).messages
    assert calls(answer)[0].arguments == {"INVALID_JSON": "{oops"}


def test_an_output_belongs_to_an_open_call_of_the_history() -> None:
    history = [
        UserMessage(content="Go", **ids()),
        AssistantMessage(
            content="", tool_calls=[ToolCall(id="c1", name="add", arguments={})], **ids()
        ),
    ]
    [result] = parse_input([output("c1", "3")], history=history).messages
    assert isinstance(result, ToolMessage)
    assert (result.tool_name, result.tool_call_id, result.content) == ("add", "c1", "3")
    assert refused([output("c2")], history=history) == (
        "input[0].call_id",
        "No tool call found for function call output with call_id c2.",
    )
    assert refused([output("c1"), output("c1")], history=history)[0] == "input[1].call_id"
    assert refused([output("c1")], history=[])[0] == "input[0].call_id"


def test_of_a_history_that_was_not_read_any_call_may_be_answered() -> None:
    [result] = parse_input([output("c1", "3")]).messages
    assert (result.tool_name, result.tool_call_id) == ("", "c1")  # type: ignore[union-attr]


def test_a_call_of_a_client_needs_its_output() -> None:
    items = [function("c1"), function("c2"), output("c1")]
    with pytest.raises(
        MissingToolResult, match="No tool output found for function call c2"
    ) as info:
        parse_input(items)
    assert info.value.details["field"] == "input"
    assert len(parse_input(items, is_whole=False).messages) == 2


# --- Approvals ---------------------------------------------------------------------------------


def answered(approve: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "type": "mcp_approval_response",
        "approval_request_id": REQUEST,
        "approve": approve,
        **more,
    }


def test_an_approval_names_its_session_and_its_question() -> None:
    parsed = parse_input([answered(False, reason="no")])
    [approval] = parsed.approvals
    assert (approval.session_id, approval.confirmation_id) == (SESSION, QUESTION)
    assert (approval.approve, approval.path) == (False, "input[0]")
    assert parsed.messages == []


def test_an_approval_after_its_request_has_no_result_of_the_call() -> None:
    call = ToolCall(id="c1", name="note", arguments={"text": "x"})
    parsed = parse_input(
        [{"role": "user", "content": "Note x"}, request_item(call, QUESTION, SESSION), answered()]
    )
    assert len(parsed.approvals) == 1
    assert said(parsed.messages)[1:] == [
        ("AssistantMessage", "", None, (REQUEST, "note", {"text": "x"}, False)),
        ("ToolMessage", INTERRUPTED_RESULT, None, REQUEST, True),
    ]
    assert parsed.messages[parsed.new_from :] == []


def test_an_approval_whose_call_has_run_is_history() -> None:
    call = ToolCall(id="c1", name="note", arguments={})
    ran = {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": "note",
        "arguments": "{}",
        "output": "noted",
        "approval_request_id": REQUEST,
    }
    parsed = parse_input(
        [request_item(call, QUESTION, SESSION), answered(), ran, {"role": "user", "content": "?"}]
    )
    assert parsed.approvals == ()
    assert [message.content for message in parsed.messages] == ["", "noted", "?"]


def test_an_approval_before_an_answer_is_history() -> None:
    assert parse_input([answered(), {"role": "assistant", "content": "Done"}]).approvals == ()


def test_an_approval_of_another_servers_request_is_refused() -> None:
    with pytest.raises(ItemNotFound) as info:
        parse_input([{**answered(), "approval_request_id": "mcpr_68ab"}])
    assert info.value.details["field"] == "input[0].approval_request_id"


# --- References --------------------------------------------------------------------------------


def test_references_are_read_as_the_items_that_they_name() -> None:
    messages = [
        UserMessage(content="Hi", **ids()),
        AssistantMessage(content="Hello", thinking="Hm", **ids()),
    ]
    saved = {item["id"]: item for item in items_of(messages, SESSION)}
    references = [{"type": "item_reference", "id": name} for name in saved]
    references += [{"id": name} for name in saved]  # twice, and without the type
    assert referenced_sessions(references) == {SESSION}
    assert said(parse_input(references, find=saved.get).messages) == said(messages)


def test_a_reference_to_nothing_is_refused() -> None:
    with pytest.raises(ItemNotFound) as info:
        parse_input([{"type": "item_reference", "id": "msg_68ab"}])
    assert info.value.details["field"] == "input[0]"
    assert referenced_sessions([{"type": "item_reference", "id": "msg_68ab"}, 3, {}]) == set()
    assert referenced_sessions("Hi") == set()


def test_a_question_that_is_open_is_referred_to_where_it_is_answered_and_nowhere_else() -> None:
    reference = {"type": "item_reference", "id": REQUEST}
    assert len(parse_input([reference, answered()]).approvals) == 1
    with pytest.raises(ItemNotFound) as info:
        parse_input([reference])
    assert info.value.details["field"] == "input[0]"


# --- Images and files --------------------------------------------------------------------------

IMAGE = {"type": "input_image", "file_id": "sha256:ab"}
FILE = {"type": "input_file", "file_data": "aGk=", "filename": "a.txt"}


def test_images_and_files_of_users_are_attached() -> None:
    content = [{"type": "input_text", "text": "What?"}, IMAGE, FILE]
    parsed = parse_input([{"role": "user", "content": content}])
    [message] = parsed.messages
    places = ["input[0].content[1].file_id", "input[0].content[2].file_data"]
    assert isinstance(message, UserMessage)
    assert message.content == "What?"
    assert [each.id for each in message.attachments] == places
    assert [file.path for file in parsed.files] == places


def test_images_of_outputs_are_attached_whether_their_call_is_there_or_not() -> None:
    items = [function("c1"), {**output("c1"), "output": [IMAGE]}]
    called = ToolCall(id="c1", name="f", arguments={}, client_side=True)
    history = [AssistantMessage(content="", tool_calls=(called,), **ids())]
    for parsed in (parse_input(items), parse_input(items[1:], history=history)):
        result = parsed.messages[-1]
        assert isinstance(result, ToolMessage)
        assert result.content == ""
        assert [each.id for each in result.attachments] == [file.path for file in parsed.files]
        assert len(parsed.files) == 1


# --- Refusals ----------------------------------------------------------------------------------

USER = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, "input"),
        (7, "input"),
        ({"role": "user"}, "input"),
        (["Hi"], "input[0]"),
        ([{"type": 7}], "input[0].type"),
        ([{"content": "Hi"}], "input[0].role"),
        ([{"role": "tool", "content": "Hi"}], "input[0].role"),
        ([{"role": "user"}], "input[0].content"),
        ([{"role": "user", "content": 7}], "input[0].content"),
        ([{"role": "user", "content": [7]}], "input[0].content[0]"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}],
            "input[0].content[0].image_url",
        ),
        ([{"role": "user", "content": [{"type": "input_file"}]}], "input[0].content[0].file_id"),
        (
            [{"role": "assistant", "content": [{"type": "input_image", "file_id": "a"}]}],
            "input[0].content[0].type",
        ),
        (
            [{"role": "system", "content": [{"type": "input_file", "file_id": "a"}]}],
            "input[0].content[0].type",
        ),
        ([{"role": "user", "content": [{"type": {}, "text": ""}]}], "input[0].content[0].type"),
        ([{"role": ["user"], "content": ""}], "input[0].role"),
        ([{"role": "user", "content": [{"type": "odd", "text": ""}]}], "input[0].content[0].type"),
        ([{"type": "function_call", "name": "f"}], "input[0].call_id"),
        ([{"type": "function_call", "call_id": "c", "arguments": "{}"}], "input[0].name"),
        ([{**function("c"), "arguments": {}}], "input[0].arguments"),
        ([function("c"), function("c")], "input[1]"),
        ([{"type": "function_call_output", "output": ""}], "input[0].call_id"),
        ([{"type": "function_call_output", "call_id": "c"}], "input[0].output"),
        ([{"type": "reasoning", "summary": "Hm"}], "input[0].summary"),
        (
            [{"type": "reasoning", "summary": [{"type": "summary_text"}]}],
            "input[0].summary[0].text",
        ),
        ([{"type": "mcp_approval_response", "approve": True}], "input[0].approval_request_id"),
        ([{**answered(), "approve": "yes"}], "input[0].approve"),
        ([{"type": "mcp_call", "name": "f"}], "input[0].id"),
        ([{"type": "mcp_call", "id": "m", "name": "f", "output": 3}], "input[0].output"),
        ([{"type": "item_reference"}], "input[0].id"),
        ([USER] * 10_001, "input"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_path(value: Any, field: str) -> None:
    assert refused(value)[0] == field


def test_the_parameter_may_have_another_name() -> None:
    assert refused([7], field="items")[0] == "items[0]"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "type",
        "role",
        "content",
        "id",
        "call_id",
        "name",
        "arguments",
        "output",
        "summary",
        "error",
        "approve",
        "input",
        "encrypted_content",
        "approval_request_id",
        "text",
    ]
)
VALUES = JSON | st.sampled_from(
    f"message reasoning function_call function_call_output mcp_call item_reference user assistant "
    f"mcp_approval_request mcp_approval_response mcp_list_tools compaction custom_tool_call "
    f"custom_tool_call_output additional_tools {REQUEST}".split()
)


@given(st.lists(st.dictionaries(KEYS, VALUES) | JSON, max_size=5))
def test_any_json_is_read_or_refused(value: Any) -> None:
    refusal: MochiError | None = None
    try:
        parse_input(value, is_whole=False)
    except (ValidationFailed, ItemNotFound) as error:
        refusal = error
    assert refusal is None or refusal.details["field"].startswith("input")


def test_null_is_the_same_as_what_was_left_out_of_an_item() -> None:
    call = {**function("c1"), "arguments": None, "id": None, "status": None}
    parts = [{"type": None, "text": "Hello", "annotations": None}]
    parsed = parse_input([{"role": "user", "content": parts}, call, output("c1")])

    assert [kind for kind, *_ in said(parsed.messages)] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
    ]
    [[asked]] = [m.tool_calls for m in parsed.messages if isinstance(m, AssistantMessage)]
    assert asked.arguments == {}
