"""Describes the routes of AG-UI in the OpenAPI document."""

from inspect import cleandoc
from typing import Any

_PREFIX = "AgUi"
"""In front of the names of these components."""

_COMPONENT = f"#/components/schemas/{_PREFIX}{{name}}"

_INPUT = {
    "threadId": "6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
    "runId": "0d1c8f5e-3f5c-4f0e-9a55-2f8f9d3b7c11",
    "protocolVersion": "1.0",
    "messages": [{"id": "m1", "role": "user", "content": "What is the capital of France?"}],
    "tools": [],
    "context": [],
    "state": {},
    "forwardedProps": {"model": "qwen3:14b"},
}
_EVENTS = """data: {"type":"RUN_STARTED","threadId":"6f9619ff-8b86-4d01-b42d-00cf4fc964ff",\
"runId":"0d1c8f5e-3f5c-4f0e-9a55-2f8f9d3b7c11","protocolVersion":"1.0"}

data: {"type":"TEXT_MESSAGE_START","messageId":"f1e2d3c4b5","role":"assistant"}

data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"f1e2d3c4b5","delta":"Paris."}

data: {"type":"TEXT_MESSAGE_END","messageId":"f1e2d3c4b5"}

data: {"type":"RUN_FINISHED","threadId":"6f9619ff-8b86-4d01-b42d-00cf4fc964ff",\
"runId":"0d1c8f5e-3f5c-4f0e-9a55-2f8f9d3b7c11","outcome":{"type":"success"}}

"""

_STREAM = {
    200: {
        "description": "Events of AG-UI 1.0 as server-sent events; see `mochi-server docs ag-ui`.",
        "content": {"text/event-stream": {"example": _EVENTS}},
    }
}

THREAD: dict[str, Any] = {"responses": _STREAM}

RUN: dict[str, Any] = {
    "responses": _STREAM,
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": _COMPONENT.format(name="RunIn")},
                "example": _INPUT,
            }
        },
    },
}


def body_schemas() -> dict[str, Any]:
    """Return the schemas of the fields that are read from the body of a run."""
    import msgspec  # noqa: PLC0415 - only for the document

    from dialects_app.ag_ui.body import RunIn  # noqa: PLC0415
    from dialects_app.shared.client_sessions import NAME_PATTERN  # noqa: PLC0415

    _, found = msgspec.json.schema_components([RunIn], ref_template=_COMPONENT)
    found["RunIn"]["properties"]["threadId"]["pattern"] = f"^{NAME_PATTERN}$"
    for component in found.values():
        component["description"] = cleandoc(component["description"]).partition("\n\nAttributes")[0]
    return {f"{_PREFIX}{name}": component for name, component in found.items()}
