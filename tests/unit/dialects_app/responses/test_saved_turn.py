"""A response is made again of what its turn left in the session."""

import pytest

from dialects_app.responses.record import ResponseEnd, ResponseRecord
from dialects_app.responses.saved_turn import (
    empty_turn,
    find_turn,
    input_of,
    saved_resource,
    turns_of,
)
from dialects_app.shared.ids import item_id
from sessions_app.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    mark_cancelled,
)
from sessions_app.session import append_messages, make_session
from sessions_app.variants import extend_answer
from tests.unit.dialects_app.responses.streams import check_resource

SESSION = "0123456789"
FIRST, SECOND, THIRD = (f"{number:012x}deadbeef" for number in (1000, 2000, 3000))
NOW = "2026-01-02T03:04:05.000000+00:00"
QUESTION = "conf_" + "ab" * 16


def call(name="note", *, call_id="c1", client_side=False, **arguments):
    return ToolCall(id=call_id, name=name, arguments=arguments, client_side=client_side)


class Told:
    """Makes messages with ids that count."""

    def __init__(self):
        self._count = 0

    def _ids(self):
        self._count += 1
        return {"message_id": f"{self._count:010}", "timestamp": NOW}

    def user(self, text="Hi", **fields):
        return UserMessage(content=text, **fields, **self._ids())

    def system(self, text):
        return SystemMessage(content=text, **self._ids())

    def answer(self, text="", turn=FIRST, **fields):
        return AssistantMessage(
            content=text,
            turn_id=turn,
            model="m",
            **{"done_reason": "stop", **fields},
            **self._ids(),
        )

    def result(self, text="noted", turn=FIRST, call_id="c1", **fields):
        return ToolMessage(
            content=text,
            turn_id=turn,
            tool_call_id=call_id,
            tool_name="note",
            **fields,
            **self._ids(),
        )


@pytest.fixture
def told():
    return Told()


def session_of(*messages):
    return append_messages(make_session(SESSION, "m", now=NOW), *messages, now=NOW)


def shown(session, turn_id=FIRST, *, questions=None, **known):
    turn = find_turn(session, turn_id) or empty_turn(session, turn_id)
    resource = saved_resource(turn, questions=questions or {}, **known)
    check_resource(resource)
    return resource


def kinds(items):
    return [(item["type"], item["status"]) if "status" in item else item["type"] for item in items]


def test_an_answer_is_a_completed_response(told):
    usage = Usage(input_tokens=3, output_tokens=4, cached_tokens=1, reasoning_tokens=2)
    session = session_of(told.user(), told.answer("Hello", thinking="Hm", usage=usage))
    resource = shown(session)
    assert resource["id"] == f"resp_{SESSION}{FIRST}"
    assert (resource["status"], resource["error"], resource["created_at"]) == ("completed", None, 1)
    assert resource["completed_at"] == 1767323045
    assert kinds(resource["output"]) == [("reasoning", "completed"), ("message", "completed")]
    assert resource["usage"]["input_tokens_details"]["cached_tokens"] == 1
    assert resource["usage"]["output_tokens_details"]["reasoning_tokens"] == 2
    assert resource["usage"]["total_tokens"] == 7


def test_its_client_gets_back_what_it_asked_for(told):
    record = ResponseRecord(echo={"temperature": 0.5, "model": "profile:x"}, background=True)
    resource = shown(session_of(told.user(), told.answer("Hello")), record=record)
    assert (resource["temperature"], resource["model"]) == (0.5, "profile:x")
    assert resource["background"] is True


def test_the_rounds_of_a_turn_are_one_response_and_their_usage_is_summed(told):
    usage = Usage(input_tokens=10, output_tokens=1, cost_usd="0.125")
    session = session_of(
        told.user(),
        told.answer("Calling.", tool_calls=(call(), call(call_id="c2")), usage=usage),
        told.result("one"),
        told.result("Error: no", call_id="c2", failed=True),
        told.answer("", tool_calls=(call(),), usage=usage),
        told.result("three"),
        told.answer("Done", usage=usage),
    )
    resource = shown(session)
    assert kinds(resource["output"]) == [
        ("message", "completed"),
        ("mcp_call", "completed"),
        ("mcp_call", "failed"),
        ("mcp_call", "completed"),
        ("message", "completed"),
    ]
    outputs = [item.get("output") for item in resource["output"] if item["type"] == "mcp_call"]
    assert outputs == ["one", None, "three"]
    assert resource["output"][2]["error"]["content"] == [{"type": "text", "text": "no"}]
    names = [item["id"] for item in resource["output"]]
    assert len(set(names)) == len(names), "a model may count its calls anew"
    assert (resource["usage"]["input_tokens"], resource["usage"]["output_tokens"]) == (30, 3)
    assert resource["usage"]["cost"] == 0.375


@pytest.mark.parametrize(
    ("reason", "status", "cut_by"),
    [
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        (None, "completed", None),
    ],
)
def test_why_the_model_stopped_decides_the_status(told, reason, status, cut_by):
    resource = shown(session_of(told.user(), told.answer("Hello", done_reason=reason)))
    assert resource["status"] == status
    assert resource["incomplete_details"] == (cut_by and {"reason": cut_by})


def test_a_cancelled_answer_is_shown_without_its_marker(told):
    answer = told.answer(mark_cancelled("Hel"), cancelled=True)
    resource = shown(session_of(told.user(), answer))
    assert (resource["status"], resource["completed_at"]) == ("cancelled", None)
    [item] = resource["output"]
    assert (item["content"][0]["text"], item["status"]) == ("Hel", "incomplete")


def test_an_answer_that_broke_off_failed(told):
    resource = shown(session_of(told.user(), told.answer("Hel", interrupted=True)))
    assert (resource["status"], resource["error"]["code"]) == ("failed", "server_error")
    assert kinds(resource["output"]) == [("message", "incomplete")]


def test_what_is_known_of_its_end_says_why_it_failed(told):
    end = ResponseEnd(error_code="RATE_LIMITED", error_message="Slow down.")
    resource = shown(session_of(told.user()), end=end)
    assert (resource["status"], resource["output"]) == ("failed", [])
    assert resource["error"]["code"] == "rate_limit_exceeded"
    assert resource["error"]["message"] == "Slow down."
    assert shown(session_of(told.user()))["status"] == "failed"


def test_calls_of_the_client_complete_a_response(told):
    calls = (call(), call("look", call_id="c2", client_side=True, at="x"))
    session = session_of(told.user(), told.answer(tool_calls=calls), told.result())
    resource = shown(session)
    assert resource["status"] == "completed"
    [ours, theirs] = resource["output"]
    assert (ours["type"], theirs["type"]) == ("mcp_call", "function_call")
    assert (theirs["call_id"], theirs["arguments"]) == ("c2", '{"at":"x"}')


def test_what_the_client_sent_is_input_of_the_next_response(told):
    theirs = call("look", client_side=True)
    session = session_of(
        told.system("Be brief."),
        told.user(),
        told.answer(tool_calls=(theirs,)),
        told.result("seen", turn=None),
        told.answer("Done", turn=SECOND),
    )
    assert kinds(shown(session, SECOND)["output"]) == [("message", "completed")]
    turn = find_turn(session, SECOND)
    assert [item["type"] for item in input_of(turn, questions={})] == [
        *("message", "message"),
        *("function_call", "function_call_output"),
    ]
    assert [item["type"] for item in input_of(find_turn(session, FIRST), questions={})] == [
        *("message", "message"),
    ]


def test_a_result_is_input_even_if_its_turn_is_noted_with_it(told):
    theirs = call("look", client_side=True)
    session = session_of(
        told.user(),
        told.answer(tool_calls=(theirs,)),
        told.result("seen", turn=SECOND),
        told.answer("Done", turn=SECOND),
    )
    assert kinds(shown(session, SECOND)["output"]) == [("message", "completed")]


def test_a_call_that_waits_for_an_approval_is_a_question(told):
    session = session_of(told.user(), told.answer("May I?", tool_calls=(call(text="x"),)))
    for known in (
        {"questions": {"c1": QUESTION}},
        {"end": ResponseEnd(questions={"c1": QUESTION})},
    ):
        resource = shown(session, **known)
        assert resource["status"] == "completed"
        asked = resource["output"][1]
        assert asked["type"] == "mcp_approval_request"
        assert asked["id"] == item_id("mcpr", SESSION, QUESTION)
        assert (asked["name"], asked["arguments"]) == ("note", '{"text":"x"}')


def test_the_response_that_runs_an_approved_call_shows_it(told):
    session = session_of(
        told.user(),
        told.answer(tool_calls=(call(text="x"),)),
        told.result(turn=SECOND, confirmation_id=QUESTION),
        told.answer("Done", turn=SECOND),
    )
    end = ResponseEnd(questions={"c1": QUESTION})
    assert [item["type"] for item in shown(session, end=end)["output"]] == ["mcp_approval_request"]
    resource = shown(session, SECOND)
    assert resource["status"] == "completed"
    [ran, said] = resource["output"]
    assert (ran["type"], ran["output"], said["type"]) == ("mcp_call", "noted", "message")
    assert ran["approval_request_id"] == item_id("mcpr", SESSION, QUESTION)


def test_calls_without_results_and_without_a_question_broke_off(told):
    session = session_of(told.user(), told.answer(tool_calls=(call(),)))
    resource = shown(session)
    assert resource["status"] == "failed"
    assert kinds(resource["output"]) == [("mcp_call", "incomplete")]


def test_an_agent_is_shown_by_its_name(told):
    asked = call("agent", agent="clerk", instruction="Go")
    session = session_of(told.user(), told.answer(tool_calls=(asked,)), told.result())
    [item] = shown(session)["output"]
    assert (item["name"], item["arguments"]) == ("clerk", '{"instruction":"Go"}')


def test_an_answer_that_was_made_again_is_still_a_response(told):
    session = session_of(told.user(), told.answer("Old"))
    replaced = session.messages[-1].message_id
    session = extend_answer(session, told.answer("New", turn=SECOND), now=NOW, replaced_id=replaced)
    old, new = shown(session), shown(session, SECOND)
    assert [each["output"][0]["content"][0]["text"] for each in (old, new)] == ["Old", "New"]
    assert turns_of(session) == {FIRST, SECOND}
    [said] = input_of(find_turn(session, FIRST), questions={})
    assert said["content"][0]["text"] == "Hi"


def test_results_that_a_client_tells_of_are_no_calls_of_the_response(told):
    session = session_of(
        told.user(turn_id=FIRST),
        told.answer(tool_calls=(call(),), turn=None),
        told.result(turn=FIRST),
        told.user("And?", turn_id=FIRST),
        told.answer("Done"),
    )
    assert kinds(shown(session)["output"]) == [("message", "completed")]
    assert [item["type"] for item in input_of(find_turn(session, FIRST), questions={})] == [
        *("message", "mcp_call", "message"),
    ]


def test_the_input_of_a_response_without_output_ends_with_what_it_was_told(told):
    session = session_of(
        told.user("One", turn_id=FIRST),
        told.user("Two", turn_id=SECOND),
        told.user("Three", turn_id=THIRD),
        told.answer("Done", turn=THIRD),
    )

    def inputs(turn):
        return [item["content"][0]["text"] for item in input_of(turn, questions={})]

    assert inputs(empty_turn(session, FIRST)) == ["One"]
    assert inputs(empty_turn(session, SECOND)) == ["One", "Two"]
    assert inputs(find_turn(session, THIRD)) == ["One", "Two", "Three"]
    assert turns_of(session) == {FIRST, SECOND, THIRD}
    assert inputs(empty_turn(session, "9" * 20)) == ["One", "Two", "Three", "Done"]
