"""Describes input items and metadata as JSON schemas, for the OpenAPI document."""

from typing import Annotated, Any

from msgspec import Meta

from dialects_app.responses.content import TEXT_PARTS
from dialects_app.shared.labels import MAX_KEY, MAX_PAIRS, MAX_VALUE

_TEXT = {"type": "string"}
_NULL = {"type": "null"}


def _item(kind: str, *required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type", *(required or properties)],
        "properties": {"type": {"const": kind}, **properties},
    }


_TEXT_PARTS = sorted(TEXT_PARTS)
_TEXT_OR_NULL = {"anyOf": [_TEXT, _NULL]}
_SAID: list[dict[str, Any]] = [
    {
        "type": "object",
        "required": ["text"],
        "properties": {"type": {"enum": [*_TEXT_PARTS, None]}, "text": _TEXT},
    },
    {
        "type": "object",
        "required": ["type", "refusal"],
        "properties": {"type": {"const": "refusal"}, "refusal": _TEXT},
    },
]
_FILE_ID = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_FILES = [
    {
        **_item("input_image", "file_id", file_id=_FILE_ID),
        "description": "Instead of `file_id`, `image_url` may be a data URL with base64, or the "
        "URL of an image (`MOCHI_FETCH_IMAGES`).",
    },
    {
        **_item("input_file", "file_id", file_id=_FILE_ID, filename=_TEXT_OR_NULL),
        "description": "Instead of `file_id`, `file_data` may be base64 or a data URL with it, or "
        "`file_url` a URL (`MOCHI_FETCH_IMAGES`).",
    },
]
_PARTS = {"type": "array", "items": {"anyOf": _SAID}}
_PARTS_WITH_FILES = {"type": "array", "items": {"anyOf": [*_SAID, *_FILES]}}
_SUMMARY = {
    "type": "array",
    "items": {"type": "object", "required": ["text"], "properties": {"text": _TEXT}},
}
ITEM: dict[str, Any] = {
    "description": "What is sent back of an answer may have more fields; they are ignored.",
    "anyOf": [
        {
            "type": "object",
            "required": ["role", "content"],
            "properties": {
                "type": {"enum": ["message", None]},
                "role": {"enum": ["assistant", "system", "developer"]},
                "content": {"anyOf": [_TEXT, _PARTS]},
            },
        },
        {
            "type": "object",
            "required": ["role", "content"],
            "properties": {
                "type": {"enum": ["message", None]},
                "role": {"const": "user"},
                "content": {"anyOf": [_TEXT, _PARTS_WITH_FILES]},
            },
        },
        _item(
            "function_call",
            *("call_id", "name"),
            call_id=_TEXT,
            name=_TEXT,
            arguments=_TEXT_OR_NULL,
        ),
        _item("function_call_output", call_id=_TEXT, output={"anyOf": [_TEXT, _PARTS_WITH_FILES]}),
        {
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": {"const": "reasoning"},
                "summary": {"anyOf": [_SUMMARY, _NULL]},
                "content": {"anyOf": [_SUMMARY, _NULL]},
            },
        },
        _item(
            "mcp_call",
            *("id", "name"),
            id=_TEXT,
            name=_TEXT,
            arguments=_TEXT_OR_NULL,
            output=_TEXT_OR_NULL,
        ),
        _item("item_reference", id=_TEXT),
    ],
}
_LABELS: dict[str, Any] = {
    "anyOf": [
        {
            "type": "object",
            "maxProperties": MAX_PAIRS,
            "propertyNames": {"minLength": 1, "maxLength": MAX_KEY},
            "additionalProperties": {"type": "string", "maxLength": MAX_VALUE},
        },
        _NULL,
    ]
}


def items_schema(most: int) -> dict[str, Any]:
    """Return the schema of a list with a maximum length."""
    return {"type": "array", "maxItems": most, "items": ITEM}


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a nullable value."""
    return {"anyOf": [schema, _NULL]}


Labels = Annotated[Any, Meta(extra_json_schema=_LABELS)]
"""Metadata, as ``labels.read_labels`` reads it."""
