"""A finished tool call is one value: what a turn lists, and its event, are views of it."""

import msgspec
import pytest
from msgspec import UNSET

from chat.http.schemas import ExecutedToolCallOut
from chat.stream.encoding import encode_event
from chat.stream.events import SUMMARY_LENGTH, FinishedCall, ToolResultReceived

CALL = FinishedCall(
    tool_name="add",
    tool_call_id="c1",
    call_index=2,
    arguments={"a": 1},
    success=True,
    result="3",
    error_message=None,
    execution_time_ms=0.5,
)


def test_the_event_of_a_call_and_its_arguments_are_the_call():
    assert FinishedCall.of(CALL.event(), CALL.arguments) == CALL


@pytest.mark.parametrize(
    ("changes", "summary"),
    [
        ({}, "3"),
        ({"result": "x" * 500}, "x" * SUMMARY_LENGTH),
        ({"result": None, "error_message": "broken"}, "broken"),
        ({"result": None}, ""),
    ],
)
def test_an_event_shows_the_result_on_a_line(changes, summary):
    assert msgspec.structs.replace(CALL, **changes).event().summary == summary


def test_codes_and_servers_are_of_the_event_alone():
    event = CALL.event(error_code="TIMEOUT", server="notes")
    assert (event.error_code, event.server) == ("TIMEOUT", "notes")
    assert (CALL.event().error_code, CALL.event().server) == (UNSET, UNSET)
    assert FinishedCall.of(event, CALL.arguments) == CALL


def test_the_order_of_the_fields_is_the_contract():
    assert encode_event(CALL.event()) == (
        '{"tool_name":"add","success":true,"result":"3","error_message":null,"call_index":2,'
        '"tool_call_id":"c1","summary":"3","execution_time_ms":0.5}'
    )
    assert msgspec.json.encode(CALL) == (
        b'{"tool_name":"add","tool_call_id":"c1","call_index":2,"arguments":{"a":1},'
        b'"success":true,"result":"3","error_message":null,"execution_time_ms":0.5}'
    )


def test_the_schema_of_the_routes_has_the_same_fields():
    assert tuple(ExecutedToolCallOut.model_fields) == FinishedCall.__struct_fields__
    shown = ExecutedToolCallOut.model_validate(CALL)
    assert shown.model_dump() == msgspec.structs.asdict(CALL) | {"attachments": []}
    assert set(FinishedCall.__struct_fields__) - {"arguments"} < set(
        ToolResultReceived.__struct_fields__
    )
