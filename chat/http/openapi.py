"""Describes event streams in the OpenAPI document."""

from typing import Any

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

# One event as a client parses it. A keyword of OpenAPI 3.2, which readers of 3.1 pass over.
_EVENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": EVENT_ID_PATTERN},
        "event": {"enum": [event.event for event in EVENTS]},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "retry": {"type": "integer"},
    },
    "required": ["id", "event", "data"],
}

STREAM: dict[str, Any] = {
    "responses": {
        200: {
            "description": "Server-sent events; see docs/events.md for every event.",
            "content": {
                "text/event-stream": {
                    "itemSchema": _EVENT,
                    "example": _EXAMPLE,
                }
            },
        }
    }
}
