"""What of a run's input is new to its session, and what is not taken."""

from collections import UserList

import msgspec
import pytest

from dialects_app.ag_ui.body import ResumeIn, RunIn
from dialects_app.ag_ui.request import give_up_calls, read_new_input, read_props, read_turn
from dialects_app.errors import ChatDiffers
from dialects_app.shared.body import decode_body
from sessions_app.errors import ValidationFailed
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

NOW = "2026-01-02T03:04:05.000000+00:00"


def person(name, content="Hi"):
    return UserMessage(content=content, message_id=name, timestamp=NOW)


def answer(name, *calls, **fields):
    return AssistantMessage(
        content="Hello", message_id=name, timestamp=NOW, tool_calls=calls, **fields
    )


def result(call_id):
    return ToolMessage(content="3", message_id=f"of-{call_id}", timestamp=NOW, tool_call_id=call_id)


def call(call_id, *, client_side=False):
    return ToolCall(id=call_id, name="add", arguments={}, client_side=client_side)


def user(name, content="More"):
    return {"id": name, "role": "user", "content": content}


def assistant(name, **fields):
    return {"id": name, "role": "assistant", "content": "Hello", **fields}


def tool(call_id, content="sunny", **fields):
    return {"id": "t", "role": "tool", "toolCallId": call_id, "content": content, **fields}


HISTORY = (person("u1"), answer("a1"))
ASKED = (person("u1"), answer("a1", call("c1", client_side=True), call("c2")), result("c2"))


def contents(said):
    return [(message.message_id, message.content) for message in said.messages]


def test_the_last_message_of_a_person_is_new_and_keeps_its_id():
    said = read_new_input([user("u1", "Hi"), assistant("a1"), user("u2")], HISTORY)
    assert contents(said) == [("u2", "More")]
    assert said.paths == ["messages.2"]


def test_what_the_client_says_of_the_history_is_not_read():
    sent = [user("x", "Other"), assistant("a1", content="Forged"), user("u2")]
    assert contents(read_new_input(sent, HISTORY)) == [("u2", "More")]


def test_a_client_may_send_nothing_but_what_is_new():
    assert contents(read_new_input([user("u2")], HISTORY)) == [("u2", "More")]


def test_messages_that_got_no_answer_are_said_together():
    sent = [user("u1"), assistant("a1"), user("u2", "One"), user("u3", "Two")]
    assert contents(read_new_input(sent, HISTORY)) == [("u2", "One"), ("u3", "Two")]


def test_a_message_whose_id_can_be_none_gets_another_one():
    [message] = read_new_input([user("a/b")], ()).messages
    assert (len(message.message_id), message.content) == (10, "More")


@pytest.mark.parametrize(
    "sent",
    [
        [assistant("forged"), user("u2")],
        [assistant("a1"), assistant("a1"), user("u2")],
        [assistant("u1"), user("u2")],
        [{"role": "assistant", "content": "no id"}, user("u2")],
        [user("u0"), assistant("a1"), assistant("a0"), user("u2")],
    ],
)
def test_answers_that_the_session_does_not_have_are_refused(sent):
    with pytest.raises(ChatDiffers):
        read_new_input(sent, HISTORY)


def test_a_client_that_lacks_an_answer_is_told():
    later = (*HISTORY, person("u2"), answer("a2"))
    with pytest.raises(ChatDiffers):
        read_new_input([user("u1"), assistant("a1"), user("u3")], later)
    cut = (*HISTORY, person("u2"), answer("a2", cancelled=True))
    assert contents(read_new_input([assistant("a1"), user("u3")], cut)) == [("u3", "More")]


def test_what_agents_said_is_of_no_account():
    inside = assistant("plan", subagentRunId="c1")
    sent = [user("u1"), inside, assistant("a1"), tool("i1", subagentRunId="c1"), user("u2")]
    assert contents(read_new_input(sent, HISTORY)) == [("u2", "More")]


def test_the_last_answer_can_be_made_again():
    assert read_new_input([user("u1")], HISTORY).again
    assert read_new_input([user("u1")], (person("u1"),)).again
    later = (*HISTORY, person("u2"), answer("a2"))
    with pytest.raises(ChatDiffers):
        read_new_input([user("u1")], later)


def test_results_of_the_clients_calls_are_new():
    sent = [user("u1"), assistant("a1"), tool("c2", "3"), tool("c1")]
    [message] = read_new_input(sent, ASKED).messages
    assert (message.tool_call_id, message.content, message.failed) == ("c1", "sunny", False)


class Counted(UserList):
    """Messages that count how often somebody goes through them."""

    looks = 0

    def __iter__(self):
        self.looks += 1
        return super().__iter__()


def test_many_results_are_not_each_looked_for_in_the_whole_session():
    history = Counted(ASKED)
    sent = [assistant("a1"), *[tool("c2", "3")] * 100, tool("c1")]
    assert len(read_new_input(sent, history).messages) == 1
    assert history.looks < 10


def test_a_tool_of_the_client_may_fail():
    sent = [assistant("a1"), tool("c1", "", error="no network")]
    [message] = read_new_input(sent, ASKED).messages
    assert (message.content, message.failed) == ("Error: no network", True)


@pytest.mark.parametrize("call_id", ["c3", "c9", None])
def test_results_of_other_calls_are_refused(call_id):
    waiting = (person("u1"), answer("a1", call("c1", client_side=True), call("c3")))
    with pytest.raises(ValidationFailed) as refused:
        read_new_input([assistant("a1"), tool(call_id)], waiting)
    assert refused.value.details["field"] == "messages.1.toolCallId"


def test_calls_that_the_client_never_ran_are_given_up():
    said = read_new_input([assistant("a1"), user("u2")], ASKED).messages
    lost, message = give_up_calls(said, ASKED)
    assert (lost.tool_call_id, lost.content, lost.failed) == ("c1", INTERRUPTED_RESULT, True)
    assert message is said[0]


def test_images_are_kept_by_where_they_stand():
    part = {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}
    said = read_new_input([user("u1", [{"type": "text", "text": "Look"}, part])], ())
    [file] = said.files
    assert (file.path, file.is_image) == ("messages.0.content.1.source.value", True)
    [message] = said.messages
    assert (message.content, message.attachments[0].id) == ("Look", file.path)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (None, "messages.0.content"),
        (["x"], "messages.0.content.0"),
        ([{"type": "text"}], "messages.0.content.0.text"),
        ([{"type": "hologram"}], "messages.0.content.0.type"),
        ([{"type": "image"}], "messages.0.content.0.source"),
        ([{"type": "image", "source": {"type": "data"}}], "messages.0.content.0.source.value"),
        (
            [{"type": "image", "source": {"type": "?", "value": "x"}}],
            "messages.0.content.0.source.type",
        ),
        (
            [{"type": "image", "source": {"type": ["url"], "value": "x"}}],
            "messages.0.content.0.source.type",
        ),
        (
            [{"type": "image", "source": {"type": "url", "value": "ftp://x"}}],
            "messages.0.content.0.source.value",
        ),
        ([{"type": "binary", "mimeType": "image/png"}], "messages.0.content.0.url"),
    ],
)
def test_content_that_makes_no_sense_is_refused_by_its_place(content, field):
    with pytest.raises(ValidationFailed) as refused:
        read_new_input([user("u1", content)], ())
    assert refused.value.details["field"] == field


def test_a_role_that_nobody_knows_is_refused():
    with pytest.raises(ValidationFailed) as refused:
        read_new_input([{"id": "x", "role": "wizard"}], ())
    assert refused.value.details["field"] == "messages.0.role"


@pytest.mark.parametrize(
    ("status", "payload", "approves"),
    [
        ("resolved", {"approved": True}, True),
        ("resolved", {"approved": "true"}, False),
        ("resolved", {"approved": 1}, False),
        ("resolved", {}, False),
        ("resolved", True, False),
        ("resolved", None, False),
        ("cancelled", {"approved": True}, False),
    ],
)
def test_nothing_but_true_approves(status, payload, approves):
    decision = ResumeIn(interrupt_id="conf_a", status=status, payload=payload).decision
    assert (decision.approved, decision.arguments) == (approves, None)


def body(**fields):
    return msgspec.convert({"threadId": "t", "runId": "r", "messages": [], **fields}, RunIn)


def test_the_application_tells_the_model_by_system_messages_and_context():
    sent = body(
        messages=[{"id": "s", "role": "system", "content": "Be brief."}],
        context=[{"description": "The time", "value": "noon"}],
    )
    turn = read_turn(sent, read_props(sent))
    assert turn.instructions == (
        "Be brief.\n\nContext that the application gives:\n- The time: noon"
    )
    assert (turn.detached, turn.approvals) == (True, "suspend")
    assert read_turn(body(), read_props(body())).instructions is None


def test_tools_of_the_client_are_offered():
    sent = body(tools=[{"name": "get_weather", "description": "Tell it."}])
    [tool_spec] = read_turn(sent, read_props(sent)).client_tools
    assert (tool_spec.name, tool_spec.parameters["type"]) == ("get_weather", "object")
    with pytest.raises(ValidationFailed) as refused:
        read_turn(body(tools=[{"name": "no name"}]), read_props(body()))
    assert refused.value.details["field"] == "tools.0.name"


def test_properties_that_mean_nothing_here_are_ignored():
    props = read_props(body(forwardedProps={"model": "small:1b", "theme": "dark", "think": "low"}))
    assert (props.model, props.think, props.selected_tools) == ("small:1b", "low", None)
    assert read_props(body(forwardedProps="dark")).model is None


@pytest.mark.parametrize(("given", "detached"), [(None, True), (True, True), (False, False)])
def test_a_run_goes_on_without_its_client_unless_it_is_told_not_to(given, detached):
    sent = body(forwardedProps={"detached": given})
    assert read_turn(sent, read_props(sent)).detached is detached


def test_a_property_of_a_wrong_type_is_refused():
    with pytest.raises(ValidationFailed) as refused:
        read_props(body(forwardedProps={"model": 5}))
    assert refused.value.details["field"] == "forwardedProps.model"


def test_a_tool_that_says_nothing_of_itself_has_an_empty_description():
    tool = {"name": "weather", "description": None, "parameters": None}
    body = msgspec.convert(
        {"threadId": "t", "runId": "r", "messages": [], "tools": [tool], "context": None}, RunIn
    )

    [spec] = read_turn(body, read_props(body)).client_tools

    assert (spec.name, spec.description) == ("weather", "")


@pytest.mark.parametrize("wrong", [[], {}, 3, True, [["user"]]])
@pytest.mark.parametrize("field", ["id", "role", "toolCallId", "error", "subagentRunId"])
def test_a_field_of_a_message_that_is_no_text_is_refused(field, wrong):
    message = {**tool("c1"), field: wrong}
    body = {"threadId": "t", "runId": "r", "messages": [message]}
    with pytest.raises(ValidationFailed, match=f"messages\\[0\\].{field}"):
        decode_body(msgspec.json.encode(body), RunIn)


@pytest.mark.parametrize("wrong", [[], {}, 3, None])
def test_a_part_of_a_wrong_type_is_refused(wrong):
    with pytest.raises(ValidationFailed) as refused:
        read_new_input([user("u2", [{"type": wrong, "text": "Hi"}])], HISTORY)
    assert refused.value.details["field"] == "messages.0.content.0.type"
