"""The OpenAPI document describes every event as its class declares it."""

import json

import msgspec
import pytest
from jsonschema import Draft202012Validator

from chat.http.openapi import event_schemas
from chat.stream.encoding import encode_event
from chat.stream.events import EVENTS, ContentDelta, Done, StatusChanged, TurnStarted


def validator(component: str) -> Draft202012Validator:
    """Return what validates against a component of a document."""
    document = {"components": {"schemas": event_schemas()}}
    return Draft202012Validator({"$ref": f"#/components/schemas/{component}", **document})


def test_every_field_of_every_event_is_described():
    schemas = event_schemas()
    for event in EVENTS:
        described = schemas[event.__name__]["properties"]
        assert list(described) == [field.name for field in msgspec.structs.fields(event)]


def test_every_event_is_a_component_that_its_name_tells_apart():
    schemas = event_schemas()
    mapping = schemas["TurnEvent"]["discriminator"]["mapping"]
    assert list(mapping) == [event.event for event in EVENTS]
    assert [each["$ref"] for each in schemas["TurnEvent"]["oneOf"]] == list(mapping.values())
    for event in EVENTS:
        assert mapping[event.event].endswith(f"/{event.__name__}Event")
        whole = schemas[f"{event.__name__}Event"]["properties"]
        assert whole["event"]["const"] == event.event
        assert whole["data"]["$ref"].endswith(f"/{event.__name__}")


def test_what_is_sent_is_what_is_described():
    payload = json.loads(encode_event(StatusChanged(state="retrying")))
    validator("StatusChanged").validate(payload)
    assert not validator("StatusChanged").is_valid({"state": "unheard of"})


@pytest.mark.parametrize(
    "event",
    [
        TurnStarted(turn_id="t1", session_id="a1b2c3d4e5", model="m"),
        ContentDelta(content="x"),
        Done(session_id="a1b2c3d4e5"),
    ],
)
def test_an_event_as_clients_parse_it_is_a_turn_event(event):
    parsed = {"id": "t1:1", "event": event.event, "data": json.loads(encode_event(event))}
    validator("TurnEvent").validate(parsed)
    validator("TurnEventFrame").validate({**parsed, "data": encode_event(event)})
    assert not validator("TurnEvent").is_valid({**parsed, "event": "unheard_of"})


def test_what_is_always_sent_is_required_and_nothing_has_a_default():
    schemas = event_schemas()
    assert schemas["ContentDelta"]["required"] == ["content", "role"]
    assert "message_id" not in schemas["TurnStarted"]["required"]
    assert "attachments" not in schemas["ToolResultReceived"]["required"]
    properties = [
        field for each in schemas.values() for field in each.get("properties", {}).values()
    ]
    assert not [field for field in properties if "default" in field]


def test_events_of_another_stream_are_described_the_same_way():
    schemas = event_schemas([Done], union="OtherEvent", id_pattern="^[0-9]+$")
    assert schemas["DoneEvent"]["properties"]["id"]["pattern"] == "^[0-9]+$"
    assert schemas["OtherEvent"]["discriminator"]["mapping"].keys() == {"done"}
    assert "OtherEventData" in schemas


def test_older_names_of_token_counts_are_deprecated():
    schemas = event_schemas()
    deprecated = {
        name
        for described in (schemas["MessageComplete"], schemas["CallUsage"])
        for name, field in described["properties"].items()
        if field.get("deprecated")
    }
    in_usage = {"prompt_tokens", "completion_tokens", "total_tokens"}
    assert deprecated == {"eval_count", "prompt_eval_count", *in_usage}
