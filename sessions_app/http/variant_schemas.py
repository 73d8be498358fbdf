"""Bodies of the route that chooses a variant of an answer."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sessions_app.http.schemas import MessageOut

_ANSWER: dict[str, Any] = {
    "role": "assistant",
    "content": "With async def and await.",
    "model": "qwen3:14b",
    "message_id": "f1e2d3c4b5",
    "timestamp": "2026-01-15T10:35:00.000000+00:00",
    "eval_count": 12,
    "prompt_eval_count": 45,
    "variant_count": 1,
}


class VariantIn(BaseModel):
    """The variant that shall be the answer."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"message_id": _ANSWER["message_id"]}}
    )

    message_id: str = Field(description="The `message_id` of a message of the variant")


class VariantOut(BaseModel):
    """The answer as it is now."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "session_id": "a1b2c3d4e5",
                "message_index": 1,
                "messages": [_ANSWER],
                "message_count": 2,
            }
        }
    )

    session_id: str
    message_index: int = Field(description="Where its first assistant message stands")
    messages: list[MessageOut] = Field(description="The answer, with its tool calls and results")
    message_count: int = Field(description="How many messages the session has now")
