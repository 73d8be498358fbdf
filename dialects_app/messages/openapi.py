"""Describes the routes of messages in the OpenAPI document."""

from typing import Any

import msgspec

from dialects_app.messages.body import CountTokensIn, MessagesIn
from dialects_app.messages.errors import error_answer


def message_operations() -> dict[str, dict[str, Any]]:
    """Return what is to be said of each operation, with its examples."""
    question = {"role": "user", "content": "What is the capital of France?"}
    body = {"model": "qwen3:14b", "max_tokens": 1024, "messages": [question]}
    message = {
        "id": "msg_be560667fb0199c7d5e8001f2e3d4c",
        "type": "message",
        "role": "assistant",
        "model": "qwen3:14b",
        "content": [{"type": "text", "text": "Paris."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 14,
            "output_tokens": 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }
    delta = {"type": "text_delta", "text": "Paris."}
    event = {"type": "content_block_delta", "index": 0, "delta": delta}
    encoded = msgspec.json.encode(event).decode()
    return {
        "anthropic_create_message": {
            "body": MessagesIn,
            "body_example": body,
            "example": message,
            "stream": f"event: content_block_delta\ndata: {encoded}\n\n",
        },
        "anthropic_count_tokens": {
            "body": CountTokensIn,
            "body_example": {"model": body["model"], "messages": [question]},
            "example": {"input_tokens": 14},
        },
    }


def error_schema() -> dict[str, Any]:
    """Return the schema of an error of Anthropic's clients."""
    answer = error_answer("MODEL_NOT_FOUND", "Model 'qwen' not found.")
    return {
        "type": "object",
        "description": "An error below `/v1/messages`, or with the header `anthropic-version`. In "
        "`error` there are our code (`mochi_code`) and `details` beside Anthropic's fields.",
        "required": [*answer.body],
        "properties": {"type": {"const": "error"}, "error": {"type": "object"}},
        "example": {**answer.body, "request_id": "req_0199c7d5e8001f2e3d4c5b6a"},
    }
