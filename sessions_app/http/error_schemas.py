"""Declares the error envelope of all routes."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ErrorInfo(BaseModel):
    """The error: a stable code for programs, a sentence for people, facts for both."""

    code: str = Field(description="Stable, machine-readable name of what happened")
    message: str = Field(description="A sentence that says what to change")
    details: dict[str, Any] = Field(
        description="Facts for programs; always has `retryable`, often `field` or `provider`"
    )


class ErrorResponse(BaseModel):
    """The body of every error answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "error": {
                    "code": "SESSION_NOT_FOUND",
                    "message": "Session with ID 'a1b2c3d4e5' not found.",
                    "details": {"session_id": "a1b2c3d4e5", "retryable": False},
                }
            }
        }
    )

    error: ErrorInfo


ENVELOPE = None
"""The type that routes declare for error answers: the OpenAPI document shows an ``ErrorResponse``.

The error handlers make these answers. Ninja would make a model for each, three for every route.
"""
