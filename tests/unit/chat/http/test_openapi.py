"""The OpenAPI document describes every event as its class declares it."""

import json

import msgspec
from jsonschema import Draft202012Validator

from chat.http.openapi import event_schemas
from chat.stream.encoding import encode_event
from chat.stream.events import EVENTS, StatusChanged


def test_every_field_of_every_event_is_described():
    schemas = event_schemas()
    for event in EVENTS:
        described = schemas[event.__name__]["properties"]
        assert list(described) == [field.name for field in msgspec.structs.fields(event)]
    names = [each["properties"]["event"]["const"] for each in schemas["TurnEvent"]["oneOf"]]
    assert names == [event.event for event in EVENTS]


def test_what_is_sent_is_what_is_described():
    schema = event_schemas()["StatusChanged"]
    payload = json.loads(encode_event(StatusChanged(state="retrying")))
    Draft202012Validator(schema).validate(payload)
    assert not Draft202012Validator(schema).is_valid({"state": "unheard of"})
