"""Describes the ``/v1`` routes in the OpenAPI document.

A route has an operation id, and ``OPERATIONS`` names the structs of its body and its response, with
examples.
"""

import json
import re
from collections.abc import Mapping, Sequence
from inspect import cleandoc
from typing import Any

import msgspec
from msgspec.structs import replace

from chat.stream.encoding import ascii_json
from dialects_app.chat_completions.answer import CompletionOut
from dialects_app.chat_completions.body import CompletionIn
from dialects_app.messages import errors as claude_errors
from dialects_app.messages.body import CountTokensIn, MessagesIn
from dialects_app.models_list import ModelListOut, ModelOut
from dialects_app.responses.body import ResponseIn
from dialects_app.responses.compacting import CompactionOut
from dialects_app.responses.conversations import (
    ConversationDeletedOut,
    ConversationIn,
    ConversationOut,
    ItemsIn,
    LabelsIn,
)
from dialects_app.responses.ending import COMPLETED
from dialects_app.responses.output_items import text_item
from dialects_app.responses.pages import ItemPage
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.resource import (
    InputTokensOut,
    ResponseDeletedOut,
    resource_of,
    usage_of,
)
from dialects_app.shared.errors import error_answer
from sessions_app.messages import Usage

_PREFIX = "OpenAI"
"""In front of the names of these components: the document has a ``ModelOut`` already."""

_COMPONENT = f"#/components/schemas/{_PREFIX}{{name}}"
_ERROR = "Error"
_CLAUDE_ERROR = "AnthropicError"


class OperationDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Describes an operation beyond its parameters.

    Attributes:
        answer: The body of its answer; None if it has none.
        example: An example of the answer.
        body: The body of its request; None if it has none.
        body_example: An example of the request.
        stream: An example of its answer as server-sent events; "" if it does not stream.
    """

    answer: type[msgspec.Struct] | None = None
    example: Any = None
    body: type[msgspec.Struct] | None = None
    body_example: Any = None
    stream: str = ""


_NAME = "qwen3:14b"
_QWEN: dict[str, Any] = {
    "id": _NAME,
    "object": "model",
    "created": 1760000000,
    "owned_by": "ollama",
    "name": _NAME,
    "context_length": 40960,
    "capabilities": ["completion", "tools", "thinking"],
    "architecture": {"input_modalities": ["text"]},
}
_QUESTION = {"role": "user", "content": "What is the capital of France?"}

_COMPLETION = {"id": "chatcmpl-0199f3a2b4c51f2e3d4c", "created": 1760000000, "model": _NAME}
_CHUNK = {
    **_COMPLETION,
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {"content": "Paris."}, "finish_reason": None}],
}
_CLAUDE_EVENT = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "text_delta", "text": "Paris."},
}

_SAID = {"type": "message", "role": "user", "content": "Hello!"}
_SAID_ITEM: dict[str, Any] = {
    "id": "msg_be560667fb0c6c7f0f1d",
    "type": "message",
    "role": "user",
    "status": "completed",
    "content": [{"type": "input_text", "text": "Hello!"}],
}
_PAGE = OperationDetails(
    answer=ItemPage,
    example={
        "object": "list",
        "data": [_SAID_ITEM],
        "first_id": _SAID_ITEM["id"],
        "last_id": _SAID_ITEM["id"],
        "has_more": False,
    },
)
_LABELS = {"metadata": {"topic": "weather"}}
_CONVERSATION = OperationDetails(
    answer=ConversationOut,
    example={
        "id": "conv_be560667fb",
        "object": "conversation",
        "created_at": 1760000000,
        **_LABELS,
    },
)
_RESPONSE: dict[str, Any] = resource_of(
    ResponseRecord(),
    session_id="be560667fb",
    turn_id="0199c7d5e8001f2e3d4c",
    model=_NAME,
    ending=COMPLETED,
    output=[text_item("msg_be560667fb5a1c3e7f90", "Hello! How can I help?")],
    usage=usage_of(Usage(input_tokens=12, output_tokens=8)),
    completed_at=1760000001,
)
_RESPONSE_EVENTS = """event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":4,\
"item_id":"msg_be560667fb5a1c3e7f90","output_index":0,"content_index":0,"logprobs":[],"delta":"Hello"}

"""
_ASKING = OperationDetails(body=ResponseIn, body_example={"model": _NAME, "input": "Hello!"})

OPERATIONS: Mapping[str, OperationDetails] = {
    "openai_list_models": OperationDetails(
        answer=ModelListOut, example={"object": "list", "data": [_QWEN]}
    ),
    "openai_get_model": OperationDetails(answer=ModelOut, example=_QWEN),
    "openai_chat_completion": OperationDetails(
        body=CompletionIn,
        body_example={"model": _NAME, "messages": [_QUESTION]},
        answer=CompletionOut,
        example={
            **_COMPLETION,
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Paris.", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": 14,
                "completion_tokens": 3,
                "total_tokens": 17,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
        },
        stream=f"data: {ascii_json(_CHUNK)}\n\ndata: [DONE]\n\n",
    ),
    "anthropic_create_message": OperationDetails(
        body=MessagesIn,
        body_example={"model": _NAME, "max_tokens": 1024, "messages": [_QUESTION]},
        example={
            "id": "msg_be560667fb0199c7d5e8001f2e3d4c",
            "type": "message",
            "role": "assistant",
            "model": _NAME,
            "content": [{"type": "text", "text": "Paris."}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 14,
                "output_tokens": 3,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        },
        stream=f"event: content_block_delta\ndata: {ascii_json(_CLAUDE_EVENT)}\n\n",
    ),
    "anthropic_count_tokens": OperationDetails(
        body=CountTokensIn,
        body_example={"model": _NAME, "messages": [_QUESTION]},
        example={"input_tokens": 14},
    ),
    "openai_create_response": replace(_ASKING, example=_RESPONSE, stream=_RESPONSE_EVENTS),
    "openai_count_input_tokens": replace(
        _ASKING,
        answer=InputTokensOut,
        example={"object": "response.input_tokens", "input_tokens": 12},
    ),
    "openai_compact_response": replace(
        _ASKING,
        answer=CompactionOut,
        example={
            "id": "resp_5f0c1d2e3a4b5c6d7e8f9a0b",
            "object": "response.compaction",
            "created_at": 1_790_000_000,
            "output": [
                {
                    "id": "cmp_1",
                    "type": "compaction",
                    "encrypted_content": "mochi.record:Ada said hello.",
                }
            ],
            "usage": usage_of(Usage(input_tokens=20, output_tokens=6)),
        },
    ),
    "openai_get_response": OperationDetails(example=_RESPONSE, stream=_RESPONSE_EVENTS),
    "openai_cancel_response": OperationDetails(example={**_RESPONSE, "status": "cancelled"}),
    "openai_delete_response": OperationDetails(
        answer=ResponseDeletedOut,
        example={"id": _RESPONSE["id"], "object": "response", "deleted": True},
    ),
    "openai_list_input_items": _PAGE,
    "openai_create_conversation": replace(
        _CONVERSATION, body=ConversationIn, body_example={"items": [_SAID], **_LABELS}
    ),
    "openai_get_conversation": _CONVERSATION,
    "openai_update_conversation": replace(_CONVERSATION, body=LabelsIn, body_example=_LABELS),
    "openai_delete_conversation": OperationDetails(
        answer=ConversationDeletedOut,
        example={"id": "conv_be560667fb", "object": "conversation.deleted", "deleted": True},
    ),
    "openai_list_conversation_items": _PAGE,
    "openai_create_conversation_items": replace(
        _PAGE, body=ItemsIn, body_example={"items": [_SAID]}
    ),
    "openai_get_conversation_item": OperationDetails(example=_SAID_ITEM),
    "openai_delete_conversation_item": _CONVERSATION,
}


def describe_operations(schema: dict[str, Any]) -> None:
    """Add bodies, answers, examples and errors to a schema of ``/v1``, in place."""
    entries = OPERATIONS.values()
    kinds = [kind for entry in entries for kind in (entry.answer, entry.body) if kind]
    components = _components(kinds)
    for component in components.values():
        if "description" in component:
            component["description"] = cleandoc(component["description"])
    components[_ERROR] = _error_schema()
    components[_CLAUDE_ERROR] = _claude_error_schema()
    named = {f"{_PREFIX}{name}": component for name, component in components.items()}
    schema["components"].setdefault("schemas", {}).update(named)
    for methods in schema["paths"].values():
        for operation in methods.values():
            name = operation["operationId"]
            error = _CLAUDE_ERROR if name.startswith("anthropic_") else _ERROR
            _describe(operation, OPERATIONS[name], error)


_MODULE = re.compile(r"dialects_app\.(\w+)\.\w+\.(\w+)")


def _components(kinds: Sequence[type[msgspec.Struct]]) -> dict[str, Any]:
    """Return the schemas of structs; a struct name in two modules becomes ``ResponsesToolIn``."""
    _, components = msgspec.json.schema_components(kinds, ref_template=_COMPONENT)
    named = _MODULE.sub(
        lambda found: found[1].title().replace("_", "") + found[2], json.dumps(components)
    )
    return dict(json.loads(named))


def _describe(operation: dict[str, Any], entry: OperationDetails, error: str) -> None:
    if entry.body is not None:
        operation["requestBody"] = {
            # A POST without a body is taken for {}, which may be enough.
            "required": any(field.required for field in msgspec.structs.fields(entry.body)),
            "content": {"application/json": _content(entry.body, entry.body_example)},
        }
    answers = operation["responses"]
    if entry.answer is not None:
        answers[200]["content"] = {"application/json": _content(entry.answer, entry.example)}
    elif entry.example is not None:
        content = {"schema": {"type": "object"}, "example": entry.example}
        answers[200]["content"] = {"application/json": content}
    if entry.stream:
        answers[200].setdefault("content", {})["text/event-stream"] = {"example": entry.stream}
    for status, message in _ERRORS:
        if status not in _REFUSALS_OF_BODIES or entry.body is not None:
            answers.setdefault(status, {"description": message})
    for status, answer in answers.items():
        if status >= 400:
            answer["content"] = {"application/json": {"schema": _ref(error)}}
    operation["responses"] = dict(sorted(answers.items()))


_ERRORS = (
    (400, "Something in the request has the wrong shape or value."),
    (401, "Authentication required."),
    (403, "The `Host` or the `Origin` is not allowed."),
    (408, "The body took too long to arrive."),
    (413, "The body is too large."),
    (415, "The body is not declared as JSON."),
    (500, "A bug in this server."),
)
_REFUSALS_OF_BODIES = frozenset({408, 413, 415})


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _COMPONENT.format(name=name)}


def _content(kind: type[msgspec.Struct], example: Any) -> dict[str, Any]:
    content = {"schema": _ref(kind.__name__)}
    return content if example is None else {**content, "example": example}


def _error_schema() -> dict[str, Any]:
    text = {"type": "string"}
    maybe = {"type": ["string", "null"]}
    return {
        "type": "object",
        "description": "An error of the `/v1` routes.",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code", "mochi_code", "details"],
                "properties": {
                    "message": {**text, "description": "A sentence that says what to change"},
                    "type": {**text, "description": "OpenAI's kind of error"},
                    "param": {
                        **maybe,
                        "description": "The path of the field, like `messages[2].content`",
                    },
                    "code": {**maybe, "description": "OpenAI's code, or ours in lower case"},
                    "mochi_code": {**text, "description": "Our code, as in all other routes"},
                    "details": {"type": "object", "description": "Facts for programs"},
                },
            }
        },
        "example": error_answer(
            "MODEL_NOT_FOUND", "Model 'qwen' not found.", details={"provider": "ollama"}
        ).body,
    }


def _claude_error_schema() -> dict[str, Any]:
    answer = claude_errors.error_answer("MODEL_NOT_FOUND", "Model 'qwen' not found.")
    return {
        "type": "object",
        "description": "An error below `/v1/messages`, or with the header `anthropic-version`. In "
        "`error` there are our code (`mochi_code`) and `details` beside Anthropic's fields.",
        "required": [*answer.body],
        "properties": {"type": {"const": "error"}, "error": {"type": "object"}},
        "example": {**answer.body, "request_id": "req_0199c7d5e8001f2e3d4c5b6a"},
    }
