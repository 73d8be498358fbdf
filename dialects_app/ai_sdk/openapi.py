"""Describes the routes for the AI SDK in the OpenAPI document."""

from inspect import cleandoc
from typing import Any

import msgspec

from dialects_app.ai_sdk.body import UIChatIn
from dialects_app.ai_sdk.chunks import DONE, chunk
from dialects_app.ai_sdk.ui_messages import UIMessagesOut
from mochi_project.http.openapi import PLAIN_TEXT_ERRORS

_COMPONENT = "#/components/schemas/{name}"
_STREAM = {
    "example": "".join(
        [
            chunk("start", messageId="turn-0199f3a2b4c51f2e3d4c"),
            chunk("start-step"),
            chunk("text-start", id="1"),
            chunk("text-delta", id="1", delta="Paris."),
            chunk("text-end", id="1"),
            chunk("finish-step"),
            chunk("finish", finishReason="stop"),
            DONE,
        ]
    ),
}
_QUESTION = {
    "id": "msg-7f3k",
    "role": "user",
    "parts": [{"type": "text", "text": "What is the capital of France?"}],
}
_ANSWER = {
    "id": "turn-0199f3a2b4c51f2e3d4c",
    "role": "assistant",
    "parts": [{"type": "step-start"}, {"type": "text", "text": "Paris.", "state": "done"}],
    "metadata": {"session_id": "a1b2c3d4e5", "model": "qwen3:14b", "message_id": "f1e2d3c4b5"},
}

CHAT: dict[str, Any] = {
    PLAIN_TEXT_ERRORS: True,  # where JSON is not asked for by name
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": _COMPONENT.format(name=UIChatIn.__name__)},
                "example": {
                    "id": "k2Jd8fLq0aXw9sYb",
                    "messages": [_QUESTION],
                    "trigger": "submit-message",
                    "model": "qwen3:14b",
                },
            }
        },
    },
    "responses": {
        200: {
            "description": "A UI message stream, which ends with `[DONE]`.",
            "content": {"text/event-stream": _STREAM},
        }
    },
}
RESUME: dict[str, Any] = {
    "responses": {
        200: {
            "description": "The stream of the running turn, from its first chunk on.",
            "content": {"text/event-stream": _STREAM},
        },
        204: {"description": "No turn runs; the messages have all there is."},
    }
}
STOP: dict[str, Any] = {
    "responses": {
        200: {
            "description": "No turn runs any more.",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["success"],
                        "properties": {"success": {"const": True}},
                    },
                    "example": {"success": True},
                }
            },
        }
    }
}
MESSAGES: dict[str, Any] = {
    "responses": {
        200: {
            "description": "The messages, oldest first.",
            "content": {
                "application/json": {
                    "schema": {"$ref": _COMPONENT.format(name=UIMessagesOut.__name__)},
                    "example": {
                        "id": "k2Jd8fLq0aXw9sYb",
                        "messages": [
                            {**_QUESTION, "metadata": {"message_id": "0f1e2d3c4b"}},
                            _ANSWER,
                        ],
                    },
                }
            },
        }
    }
}


def ui_schemas() -> dict[str, Any]:
    """Return the components that the routes refer to."""
    _, components = msgspec.json.schema_components(
        [UIChatIn, UIMessagesOut], ref_template=_COMPONENT
    )
    for component in components.values():
        if "description" in component:
            component["description"] = cleandoc(component["description"])
    return components
