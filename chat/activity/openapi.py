"""Describes the stream of changes in the OpenAPI document."""

from typing import Any

from chat.activity.events import ACTIVITY_EVENTS
from chat.http.openapi import event_schemas, event_stream
from chat.storage.change_log import POSITION_PATTERN

_EXAMPLE = """retry: 2000
id: 5f0c21ab9d3e77f0-34
event: reset
data: {}

id: 5f0c21ab9d3e77f0-78
event: turn_started
data: {"session_id":"a1b2c3d4e5","turn_id":"0199f3a2b4c51f2e3d4c","session":{"session_id":"a1b2c3d4e5",...}}

id: 5f0c21ab9d3e77f0-119
event: session_deleted
data: {"session_id":"0123456789"}

"""  # noqa: E501 - one line each

CHANGES: dict[str, Any] = {
    "responses": {
        200: event_stream(
            "ActivityEvent",
            "Server-sent events: `mochi-server docs events`.",
            _EXAMPLE,
        )
    }
}


def activity_schemas() -> dict[str, Any]:
    """Return the components that describe an event of the stream, and every payload."""
    return event_schemas(ACTIVITY_EVENTS, union="ActivityEvent", id_pattern=POSITION_PATTERN)
