"""Declares `response_format` of chat requests: the form that an answer must have."""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from models_app.language_model import ANY_OBJECT
from sessions_app.bounds import MOST_ITEMS
from sessions_app.errors import ValidationFailed
from sessions_app.json_schema import find_schema_fault

MOST_SCHEMA_BYTES = 64 * 1024
_FIELD = "response_format.schema"


class ResponseFormat(BaseModel):
    """The form of the answer: any text, any JSON object, or JSON that fits a schema."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = Field(
        None,
        alias="schema",
        max_length=MOST_ITEMS,
        description="A JSON schema (2020-12) of at most 64 KiB without references to other "
        "documents; only with `json_schema`.",
    )

    @model_validator(mode="after")
    def _has_its_schema(self) -> Self:
        if (self.type == "json_schema") is not (self.json_schema is not None):
            raise ValidationFailed(
                f"{_FIELD} is required with the type json_schema, and refused with any other",
                field=_FIELD,
            )
        return self

    async def checked_schema(self) -> Mapping[str, Any] | None:
        """Return the schema that the answer must fit; None for any text.

        Raises:
            ValidationFailed: It is too large, no valid schema, or refers to another document.
        """
        if self.json_schema is None:
            return ANY_OBJECT if self.type == "json_object" else None
        if len(msgspec.json.encode(self.json_schema)) > MOST_SCHEMA_BYTES:
            most = f"{MOST_SCHEMA_BYTES:,} bytes"
            raise ValidationFailed(f"{_FIELD}: must have at most {most}.", field=_FIELD)
        fault = await asyncio.to_thread(find_schema_fault, self.json_schema)
        if fault is not None:
            place = f" (at {fault.path})" if fault.path else ""
            raise ValidationFailed(f"{_FIELD}: {fault.words}{place}.", field=_FIELD)
        return self.json_schema
