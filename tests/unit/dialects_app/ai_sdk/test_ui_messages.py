"""A session as messages of the AI SDK."""

from typing import Any

from dialects_app.ai_sdk.ui_messages import UIMessage, client_id_of, ui_messages
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    mark_changed,
)

NOW = "2026-01-15T10:35:00.000000+00:00"
FIELDS: dict[str, Any] = {"timestamp": NOW, "turn_id": "0199f3a2b4c51f2e3d4c"}
CALL = ToolCall(id="call_1", name="add", arguments={"a": 1})
PNG = Attachment(id="sha256:ab", name="a.png", media_type="image/png", size=3)


def show(*messages: Message, questions: dict[str, str] | None = None) -> list[UIMessage]:
    return list(ui_messages("a1b2c3d4e5", messages, questions or {}))


def said(text: str = "Hi", **fields: Any) -> UserMessage:
    return UserMessage(content=text, message_id="0f1e2d3c4b", **FIELDS, **fields)


def answered(text: str, **fields: Any) -> AssistantMessage:
    return AssistantMessage(content=text, message_id="f1e2d3c4b5", model="qwen", **FIELDS, **fields)


def returned(text: str, **fields: Any) -> ToolMessage:
    given = {"message_id": "aaaaaaaaaa", "tool_name": "add", "tool_call_id": "call_1", **FIELDS}
    return ToolMessage(content=text, **given, **fields)


def test_the_system_prompt_is_none_of_the_clients_messages() -> None:
    prompt = SystemMessage(content="Be kind.", message_id="0000000000", timestamp=NOW)
    assert [each.role for each in show(prompt, said())] == ["user"]


def test_what_a_person_says_keeps_the_clients_id() -> None:
    message = said(extra={"client_id": "m1"}, attachments=(PNG,))
    (shown,) = show(message)
    assert (shown.id, client_id_of(said())) == ("m1", "0f1e2d3c4b")
    file = {"mediaType": "image/png", "url": "/api/v1/attachments/sha256:ab", "filename": "a.png"}
    assert list(shown.parts) == [{"type": "text", "text": "Hi"}, {"type": "file", **file}]


def test_an_answer_with_tools_is_one_message() -> None:
    first = answered("I add.", thinking="Hm.", tool_calls=(CALL,))
    last = answered("Three.", usage=Usage(output_tokens=2))
    user, shown = show(said(), first, returned("3", attachments=(PNG,)), last)
    assert shown.id == "turn-0199f3a2b4c51f2e3d4c"
    assert [part["type"] for part in shown.parts] == [
        *("step-start", "reasoning", "text", "dynamic-tool", "file", "step-start", "text")
    ]
    assert shown.parts[3]["output"] == "3"
    assert shown.metadata["usage"] == {"output_tokens": 2}
    assert user.role == "user"


def test_a_call_that_failed_or_waits_says_so() -> None:
    asking = answered("", tool_calls=(CALL,))
    failed = show(asking, returned("Error: No.", failed=True))[0].parts[-1]
    waiting = show(asking, questions={"call_1": "conf_1"})[0].parts[-1]
    assert (failed["state"], failed["errorText"]) == ("output-error", "No.")
    assert (waiting["state"], waiting["approval"]) == ("approval-requested", {"id": "conf_1"})


def test_a_call_that_was_denied_says_so_as_its_stream_did() -> None:
    asking = answered("", tool_calls=(CALL,))
    refused = returned("Error: No.", failed=True, error_code="TOOL_EXECUTION_DENIED")
    denied = show(asking, refused)[0].parts[-1]
    assert denied["state"] == "output-denied"
    assert denied["approval"] == {"id": CALL.id, "approved": False}
    assert "errorText" not in denied


def test_a_stopped_answer_has_no_mark() -> None:
    stopped = answered("Hel\n\n[cancelled]", cancelled=True)
    nothing = answered("[cancelled]", cancelled=True)
    assert show(stopped)[0].parts[-1]["text"] == "Hel"
    assert [part["type"] for part in show(nothing)[0].parts] == ["step-start"]


def test_a_call_of_an_agent_has_the_agents_name() -> None:
    call = ToolCall(id="call_1", name="agent", arguments={"agent": "clerk", "instruction": "Go."})
    part = show(answered("", tool_calls=(call,)))[0].parts[-1]
    assert (part["toolName"], part["input"]) == ("clerk", {"instruction": "Go."})


def test_a_call_that_a_person_changed_shows_what_it_ran_with() -> None:
    call = ToolCall(id="call_1", name="add", arguments={"a": 1})
    ran_with = {"a": 5}
    result = returned(mark_changed("6", ran_with), arguments=ran_with, confirmation_id="conf_0")
    part = show(answered("", tool_calls=(call,)), result)[0].parts[-1]
    assert (part["input"], part["output"]) == (ran_with, "6")


def test_an_answer_of_an_old_server_has_the_messages_id() -> None:
    old = AssistantMessage(content="Hi", message_id="f1e2d3c4b5", timestamp=NOW, model="qwen")
    orphan = ToolMessage(content="3", message_id="aaaaaaaaaa", timestamp=NOW, tool_name="add")
    assert [each.id for each in show(old, orphan)] == ["f1e2d3c4b5"]


def test_calls_of_an_older_server_with_the_same_id_are_parts_of_their_own() -> None:
    asking = answered("", tool_calls=(CALL,))
    [shown] = show(asking, returned("1"), asking, returned("2"))
    parts = [part for part in shown.parts if part["type"] == "dynamic-tool"]
    assert [part["output"] for part in parts] == ["1", "2"]
    assert len({part["toolCallId"] for part in parts}) == 2


def test_what_was_said_while_a_turn_ran_is_a_part_of_its_answer() -> None:
    steer = UserMessage(content="Rather 2.", message_id="9f2c000000", **FIELDS)
    asking = answered("I add.", tool_calls=(CALL,))
    _, shown = show(said(), asking, returned("3"), steer, answered("Two."))
    assert [part["type"] for part in shown.parts] == [
        *("step-start", "text", "dynamic-tool", "data-user-message", "step-start", "text")
    ]
    assert shown.parts[3]["data"] == {
        "message_id": "9f2c000000",
        "parts": [{"type": "text", "text": "Rather 2."}],
    }
