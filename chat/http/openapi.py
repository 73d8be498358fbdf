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
data: {"message_id":"f1e2d3c4b5","usage":{"input_tokens":120,"output_tokens":45},...}

id: 0199f3a2b4c51f2e3d4c:4
event: done
data: {"session_id":"a1b2c3d4e5"}

"""

_COMPONENT = "#/components/schemas/{name}"


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _COMPONENT.format(name=name)}


def event_stream(union: str, description: str, example: str) -> dict[str, Any]:
    """Return the answer of an operation that streams events.

    ``itemSchema`` is a keyword of OpenAPI 3.2, which readers of 3.1 pass over: the event as it is
    sent. Generators of clients take ``schema`` for what ``data`` holds, once it is parsed, and the
    extension names the whole event, parsed.

    Args:
        union: The component that stands for any event, as ``event_schemas`` named it.
        description: What is sent.
        example: Events as they are sent.
    """
    content = {
        "schema": _ref(f"{union}Data"),
        "itemSchema": _ref(f"{union}Frame"),
        "x-event-schema": _ref(union),
        "example": example,
    }
    return {"description": description, "content": {"text/event-stream": content}}


STREAM: dict[str, Any] = {
    "responses": {
        200: event_stream("TurnEvent", "Server-sent events: `mochi-server docs events`.", _EXAMPLE)
    }
}


def event_schemas(
    events: Sequence[type[Any]] = EVENTS,
    *,
    union: str = "TurnEvent",
    id_pattern: str = EVENT_ID_PATTERN,
) -> dict[str, Any]:
    """Return the components that describe the events of a stream as a client has parsed them.

    For a struct ``Done`` there is its payload, ``Done``, and the whole event, ``DoneEvent``. The
    union is told apart by ``event``; with ``Data`` behind its name it is the union of the payloads,
    with ``Frame`` that of the events as they are sent, ``data`` being text.

    Args:
        events: The events of a stream; those of turns by default.
        union: The name of the component that is any of them.
        id_pattern: What their ids look like.
    """
    payloads, components = msgspec.json.schema_components(events, ref_template=_COMPONENT)
    always_sent = {
        struct.__name__ for struct in events if not struct.__struct_config__.omit_defaults
    }
    for name, component in components.items():
        component["description"] = cleandoc(component["description"])
        _settle_defaults(component, always_sent=name in always_sent)
    mapping, frames = {}, []
    for struct, payload in zip(events, payloads, strict=True):
        name = f"{struct.__name__}Event"
        event = struct.event
        mapping[event] = _COMPONENT.format(name=name)
        text = {"type": "string", "contentMediaType": "application/json", "contentSchema": payload}
        frames.append(_whole_event(event, text, id_pattern))
        components[name] = {
            **_whole_event(event, payload, id_pattern),
            "description": f"The event `{event}`, its `data` parsed.",
        }
    components[union] = {
        "oneOf": [{"$ref": reference} for reference in mapping.values()],
        "discriminator": {"propertyName": "event", "mapping": mapping},
        "description": "An event of the stream, its `data` parsed.",
    }
    components[f"{union}Frame"] = {
        "oneOf": frames,
        "description": f"A `{union}` as it is sent: `data` is a line of JSON.",
    }
    components[f"{union}Data"] = {
        "anyOf": payloads,
        "description": f"What `data` of a `{union}` holds; `event` says which.",
    }
    return components


def _whole_event(event: str, data: dict[str, Any], id_pattern: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": id_pattern},
            "event": {"type": "string", "const": event},
            "data": data,
            "retry": {"type": "integer"},
        },
        "required": ["id", "event", "data"],
    }


def _settle_defaults(component: dict[str, Any], *, always_sent: bool) -> None:
    """Require what is always sent; with a default, generators would require the rest, too."""
    for name, described in component["properties"].items():
        if "default" in described:
            del described["default"]
            if always_sent:
                component["required"] = [*component.get("required", ()), name]
