"""Declares the error envelope of all routes."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ErrorInfo(BaseModel):
    """An error: a stable code, a human-readable message, and details."""

    code: str = Field(description="Stable, machine-readable error code")
    message: str = Field(description="A sentence that says what to change")
    details: dict[str, Any] = Field(
        description="Facts for programs; always has `retryable`, often `field` or `provider`"
    )


class ErrorResponse(BaseModel):
    """The body of every error response."""

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
"""The type that routes declare for error responses; OpenAPI shows it as ``ErrorResponse``.

The error handlers build these responses. A declared schema would have Ninja create a model for
each, three per route.
"""
