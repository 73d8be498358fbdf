"""Declares attachments in requests: an id, or the bytes in base64.

Base64 is not decoded here, because requests are validated in the event loop.
"""

from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from sessions_app.attachments.intake import GivenAttachment, Inline, Reference

_ID = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_NAME = {"type": ["string", "null"], "description": "Display name; never a path"}
_FORM = (
    'an id, {"id": ..., "name": ...} or {"data": base64, "name": ...}; '
    "`POST /attachments` answers an id"
)


def _given(value: Any) -> GivenAttachment:
    if isinstance(value, str):
        return Reference(id=value)
    if not isinstance(value, dict) or value.keys() - {"id", "data", "name"}:
        raise ValueError(f"must be {_FORM}")
    name = value.get("name")
    if name is not None and not isinstance(name, str):
        raise ValueError("name must be text")
    attachment_id, data = value.get("id"), value.get("data")
    if isinstance(attachment_id, str) and data is None:
        return Reference(id=attachment_id, name=name)
    if not isinstance(data, str) or attachment_id is not None:
        raise ValueError(f"must be {_FORM}")
    return Inline(data=data, name=name)


AttachmentIn = Annotated[
    Any,
    PlainValidator(_given),
    WithJsonSchema(
        {
            "title": "AttachmentIn",
            "description": "A file that was uploaded, or its bytes",
            "oneOf": [
                _ID,
                {
                    "type": "object",
                    "properties": {"id": _ID, "name": _NAME},
                    "required": ["id"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {
                        "data": {"type": "string", "description": "Base64, or a data URL"},
                        "name": _NAME,
                    },
                    "required": ["data"],
                    "additionalProperties": False,
                },
            ],
            "examples": [{"data": "SGVsbG8h", "name": "hello.txt"}],
        }
    ),
]
"""An attachment of a request: ``Reference`` or ``Inline`` once it is validated."""
