"""Describes event streams in the OpenAPI document."""

from collections.abc import Sequence
from inspect import cleandoc
from typing import Any

import msgspec

from chat.http.sse import EVENT_ID_PATTERN
from chat.stream.events import EVENTS

_EXAMPLE = """retry: 2000
id: 0199f3a2b4c51f2e3d4c:1
event: turn_started
data: {"turn_id":"0199f3a2b4c51f2e3d4c","session_id":"a1b2c3d4e5","model":"qwen3:14b"}

id: 0199f3a2b4c51f2e3d4c:2
event: content_delta
data: {"content":"The capital of France is Paris.","role":"assistant"}

id: 0199f3a2b4c51f2e3d4c:3
event: message_complete
data: {"message_id":"f1e2d3c4b5","model":"qwen3:14b","eval_count":45,"prompt_eval_count":120,...}

id: 0199f3a2b4c51f2e3d4c:4
event: done
data: {"session_id":"a1b2c3d4e5"}

"""

_COMPONENT = "#/components/schemas/{name}"

STREAM: dict[str, Any] = {
    "responses": {
        200: {
            "description": "Server-sent events; see docs/events.md for every event.",
            "content": {
                "text/event-stream": {
                    # A keyword of OpenAPI 3.2, which readers of 3.1 pass over.
                    "itemSchema": {"$ref": _COMPONENT.format(name="TurnEvent")},
                    "example": _EXAMPLE,
                }
            },
        }
    }
}


def event_schemas(
    events: Sequence[type[Any]] = EVENTS,
    *,
    union: str = "TurnEvent",
    id_pattern: str = EVENT_ID_PATTERN,
) -> dict[str, Any]:
    """Return the components that describe one event as a client parses it, and every payload.

    Args:
        events: The events of a stream; those of turns by default.
        union: The name of the component that is any of them.
        id_pattern: What their ids look like.
    """
    payloads, components = msgspec.json.schema_components(events, ref_template=_COMPONENT)
    for component in components.values():
        component["description"] = cleandoc(component["description"])
    variants = [
        {
            "type": "object",
            "properties": {
                "id": {"type": "string", "pattern": id_pattern},
                "event": {"const": event.event},
                "data": {
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": payload,
                },
                "retry": {"type": "integer"},
            },
            "required": ["id", "event", "data"],
        }
        for event, payload in zip(events, payloads, strict=True)
    ]
    return {**components, union: {"oneOf": variants}}
