"""The OpenAPI document describes every change as it is sent."""

import json

import msgspec
from jsonschema import Draft202012Validator

from chat.activity.events import ACTIVITY_EVENTS, SessionTurnStarted
from chat.activity.openapi import activity_schemas
from chat.stream.encoding import ascii_json
from sessions_app.http.schemas import LISTED_SESSION, ListedSessionOut


def test_every_field_of_every_change_is_described() -> None:
    schemas = activity_schemas()
    for event in ACTIVITY_EVENTS:
        described = schemas[event.__name__].get("properties", {})
        assert list(described) == [field.name for field in msgspec.structs.fields(event)]
    names = schemas["ActivityEvent"]["discriminator"]["mapping"]
    assert list(names) == [event.event for event in ACTIVITY_EVENTS]


def test_what_is_sent_has_a_session_as_lists_have_it() -> None:
    reference = "#/components/schemas/{model}"
    listed = ListedSessionOut.model_json_schema(ref_template=reference)
    components = {**listed.pop("$defs"), "ListedSessionOut": listed}
    schema = {
        **activity_schemas()["SessionTurnStarted"],
        "components": {"schemas": components},
    }
    event = SessionTurnStarted(session_id="a1b2c3d4e5", turn_id="t", session=LISTED_SESSION)
    payload = json.loads(ascii_json(event))
    Draft202012Validator(schema).validate(payload)
    payload["session"]["state"] = "unheard of"
    assert not Draft202012Validator(schema).is_valid(payload)
