"""A turn's events as the events of a response, as the official package takes them."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from chat.stream.agent_events import (
    AgentComplete,
    AgentPlanning,
    AgentStarted,
)
from chat.stream.events import (
    Done,
    ToolContinuationStarted,
    TurnStarted,
    TurnUsage,
)
from dialects_app.responses.projector import ResponseProjector
from dialects_app.responses.record import ResponseRecord
from tests.unit.dialects_app.responses.streams import (
    MODEL,
    approved,
    asked,
    cancelled,
    check_resource,
    complete,
    done,
    failed,
    going_on,
    projected,
    started,
    texts_of,
)
from tests.unit.dialects_app.turns import (
    SESSION_ID,
    TURN_ID,
    called,
    handed_over,
    numbered,
    returned,
    said,
    thought,
)

RESPONSE_ID = f"resp_{SESSION_ID}{TURN_ID}"


def kinds(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_text_is_an_item_that_begins_grows_and_ends():
    events = projected([started(), *said("Hel", "lo"), *complete("Hello")])
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(10))
    assert events[0]["response"]["output"] == []
    assert [event["response"]["status"] for event in (events[0], events[1], events[-1])] == [
        "in_progress",
        "in_progress",
        "completed",
    ]
    last = events[-1]["response"]
    assert (last["id"], last["model"]) == (RESPONSE_ID, MODEL)
    assert last["output"] == [
        {
            "id": f"msg_{SESSION_ID}aaaaaaaaaa",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
            ],
        }
    ]
    assert last["created_at"] == int(TURN_ID[:12], 16) // 1000
    assert last["completed_at"] == 1767323045


def test_reasoning_is_a_summary_that_ends_before_the_text_begins():
    events = projected([started(), *thought("Let me ", "see"), *said("Hi"), *complete("Hi")])
    assert kinds(events)[2:8] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
    ]
    added = [event["item"] for event in events if event["type"].endswith("output_item.added")]
    assert [(item["type"], item["id"]) for item in added] == [
        ("reasoning", f"rs_{SESSION_ID}aaaaaaaaaa"),
        ("message", f"msg_{SESSION_ID}aaaaaaaaaa"),
    ]
    assert [item.get("summary", item.get("content")) for item in added] == [[], []]


def test_a_background_response_is_queued_first():
    events = projected([started()], ResponseRecord(background=True))
    assert kinds(events) == ["created", "queued", "in_progress"]
    statuses = [event["response"]["status"] for event in events]
    assert statuses == ["queued", "queued", "in_progress"]
    assert events[0]["response"]["background"] is True


def test_a_tool_of_the_server_is_an_mcp_call():
    events = projected(
        [
            started(),
            called("c1", a=1),
            returned("c1"),
            going_on(),
            *said("3"),
            *complete("3", message_id="bbbbbbbbbb"),
        ]
    )
    assert kinds(events)[2:8] == [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]
    call, answer = events[-1]["response"]["output"]
    assert call == {
        "id": f"mcp_{SESSION_ID}c1",
        "type": "mcp_call",
        "server_label": "mochi",
        "name": "add",
        "arguments": '{"a":1}',
        "output": "3",
        "error": None,
        "status": "completed",
        "approval_request_id": None,
    }
    assert answer["id"] == f"msg_{SESSION_ID}bbbbbbbbbb"


def test_a_tool_that_fails_says_why():
    events = projected([started(), called("c1"), returned("c1", None), going_on(), *failed()])
    assert "mcp_call.failed" in kinds(events)
    [call] = events[-1]["response"]["output"]
    assert (call["status"], call["output"]) == ("failed", None)
    assert call["error"] == {
        "type": "mcp_tool_execution_error",
        "content": [{"type": "text", "text": "It broke."}],
    }


def test_a_tool_of_the_client_is_a_function_call():
    ending = complete("", done_reason="tool_calls")
    events = projected([started(), handed_over("call_a", city="Köln"), *ending])
    assert kinds(events)[2:] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert events[2]["item"]["arguments"] == ""
    assert events[4]["name"] == "get_weather"
    [call] = events[-1]["response"]["output"]
    assert (call["call_id"], call["arguments"]) == ("call_a", '{"city":"Köln"}')


def test_calls_of_two_rounds_with_one_id_are_two_items():
    events = projected(
        [
            started(),
            *(called("call_0"), returned("call_0"), going_on()),
            *(called("call_0"), returned("call_0", "4"), going_on("cccccccccc")),
            *complete("7", message_id="cccccccccc"),
        ]
    )
    first, second, _ = events[-1]["response"]["output"]
    assert (first["id"], second["id"]) == (f"mcp_{SESSION_ID}call_0", f"mcp_{SESSION_ID}call_0_2")
    assert (first["output"], second["output"]) == ("3", "4")


def test_a_turn_that_asks_completes_with_its_questions():
    events = projected([started(), *said("Shall I?"), asked("c1", "a", path="x"), done()])
    assert kinds(events)[-1] == "completed"
    text, question = events[-1]["response"]["output"]
    assert text["status"] == "completed"
    assert question == {
        "id": f"mcpr_{SESSION_ID}{'a' * 32}",
        "type": "mcp_approval_request",
        "server_label": "mochi",
        "name": "remove",
        "arguments": '{"path":"x"}',
    }


def test_a_call_that_was_approved_names_its_question():
    events = projected([started(), approved("c1", "gone", "a"), going_on(), *complete("Done.")])
    call = events[-1]["response"]["output"][0]
    assert (call["name"], call["arguments"], call["output"]) == ("remove", '{"path":"x"}', "gone")
    assert call["approval_request_id"] == f"mcpr_{SESSION_ID}{'a' * 32}"


def test_a_call_that_is_approved_while_the_turn_waits_names_its_question_too():
    events = projected(
        [started(), asked("c1", "a", path="x"), approved("c1", "gone", "a"), going_on()]
    )
    assert kinds(events)[-1] == "output_item.done"
    call = events[-1]["item"]
    assert call["approval_request_id"] == f"mcpr_{SESSION_ID}{'a' * 32}"
    assert call["arguments"] == '{"path":"x"}'


@pytest.mark.parametrize(
    ("ending", "last", "status"),
    [
        (complete("Hi", done_reason="length"), "incomplete", "incomplete"),
        (complete("Hi", done_reason="content_filter"), "incomplete", "incomplete"),
        (cancelled("Hi"), "incomplete", "cancelled"),
        (failed(), "failed", "failed"),
        (failed("CONTENT_REFUSED"), "incomplete", "incomplete"),
    ],
)
def test_what_is_not_whole_says_so(ending, last, status):
    events = projected([started(), *said("Hi"), *ending])
    assert kinds(events)[-1] == last
    response = events[-1]["response"]
    assert (response["status"], response["completed_at"]) == (status, None)
    [item] = response["output"]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "Hi")
    check_resource(response)


def test_usage_is_the_turns_and_only_known_at_its_end():
    usage = TurnUsage(
        input_tokens=30,
        output_tokens=7,
        cached_tokens=20,
        cache_write_tokens=5,
        reasoning_tokens=3,
        cost_usd="0.25",
    )
    whole, last = complete("Hi")
    counted = msgspec.structs.replace(whole, turn_usage=usage)
    events = projected([started(), *said("Hi"), counted, last])
    assert events[0]["response"]["usage"] is None
    assert events[-1]["response"]["usage"] == {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 5},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 37,
        "cost": 0.25,
    }
    asking = projected(
        [started(), asked("c1", "a"), msgspec.structs.replace(done(), turn_usage=usage)]
    )
    assert asking[-1]["response"]["usage"]["total_tokens"] == 37


def test_a_limit_and_an_error_are_told_in_openais_words():
    cut = projected([started(), *complete("Hi", done_reason="length")])[-1]["response"]
    assert cut["incomplete_details"] == {"reason": "max_output_tokens"}
    broken = projected([started(), *failed("RATE_LIMITED")])[-1]["response"]
    assert broken["error"] == {
        "code": "rate_limit_exceeded",
        "message": "It broke off.",
        "mochi_code": "RATE_LIMITED",
    }


def test_a_call_without_a_result_is_incomplete_in_the_end():
    events = projected([started(), called("c1"), *cancelled("")])
    assert kinds(events)[-2:] == ["output_item.done", "incomplete"]
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"


def test_white_space_alone_is_no_item_and_none_begins_a_text():
    events = projected(
        [started(), *said("\n", " \n"), *said(" Hi", " there", "\n"), *complete("Hi there\n")]
    )
    [text] = texts_of(events, "response.output_text.delta").values()
    assert text == "Hi there\n"
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hi there\n"


def test_an_answer_that_was_saved_whole_is_shown_whole():
    events = projected([started(), *said("Hel"), *complete("Hello")])
    assert texts_of(events, "response.output_text.delta") == {
        f"msg_{SESSION_ID}aaaaaaaaaa": "Hello"
    }
    events = projected([started(), *complete("Hello")])
    assert texts_of(events, "response.output_text.delta") == {
        f"msg_{SESSION_ID}aaaaaaaaaa": "Hello"
    }


def test_reasoning_between_pieces_of_a_text_does_not_break_the_text():
    events = projected([started(), *said("a"), *thought("b"), *said("c"), *complete("ac")])
    assert list(texts_of(events, "response.output_text.delta").values()) == ["ac"]
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "reasoning"]


def test_agents_are_calls_with_their_names():
    who: dict[str, Any] = {"agent_name": "clerk", "call_index": 0, "tool_call_id": "c1"}
    events = [
        started(),
        AgentStarted(**who, instruction="Note it."),
        AgentPlanning(**who, content="1. Note."),
        AgentComplete(**who, session_id=SESSION_ID, output="Noted."),
        going_on(),
        *complete("Done."),
    ]
    usual = projected(events)
    call = usual[-1]["response"]["output"][0]
    assert (call["name"], call["output"]) == ("clerk", "Noted.")
    assert call["arguments"] == '{"instruction":"Note it."}'
    assert not [event for event in usual if event["type"].startswith("mochi.")]
    inside = projected(events, ResponseRecord(include=["mochi.agent_events"]))
    told = [event for event in inside if event["type"].startswith("mochi.")]
    assert [event["type"] for event in told] == [
        "mochi.agent.start",
        "mochi.agent.planning",
        "mochi.agent.complete",
    ]
    assert {event["item_id"] for event in told} == {f"mcp_{SESSION_ID}c1"}


def test_journals_that_tell_no_ids_are_shown_with_ids_of_their_turn():
    events = projected(
        [
            TurnStarted(turn_id=TURN_ID, session_id=SESSION_ID, model=MODEL),
            *(*said("Hm."), called("c1"), returned("c1"), ToolContinuationStarted()),
            *(*said("Hi"), *complete("Hi")[:1], Done(session_id=SESSION_ID)),
        ]
    )
    ids = [item["id"] for item in events[-1]["response"]["output"]]
    assert ids == [
        f"msg_{SESSION_ID}{TURN_ID}0",
        f"mcp_{SESSION_ID}c1",
        f"msg_{SESSION_ID}{TURN_ID}1",
    ]


def test_a_response_that_goes_on_shows_what_there_is():
    projector = ResponseProjector(SESSION_ID, TURN_ID, ResponseRecord())
    projector.feed(numbered([started(), *thought("Hm"), *said("Hel", "lo"), called("c1")]))
    resource = projector.resource()
    check_resource(resource)
    assert resource["status"] == "in_progress"
    assert [item["status"] for item in resource["output"]] == [
        "completed",
        "completed",
        "in_progress",
    ]
    early = ResponseProjector(SESSION_ID, TURN_ID, ResponseRecord())
    early.feed(numbered([started(), *said("Hel", "lo")]))
    [item] = early.resource()["output"]
    assert (item["status"], item["content"][0]["text"]) == ("in_progress", "Hello")
