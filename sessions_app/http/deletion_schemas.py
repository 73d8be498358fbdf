"""Declares the response bodies of the routes that delete sessions, and delete or hide messages."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sessions_app.http.schemas import MessageOut


class DeletionErrorOut(BaseModel, from_attributes=True):
    """The error that prevented the deletion of a session."""

    code: str
    message: str


class DeletionOut(BaseModel, from_attributes=True):
    """The result of deleting one session."""

    session_id: str
    outcome: Literal["deleted", "not_found", "busy", "failed"]
    error: DeletionErrorOut | None = Field(description="Why it was not deleted")


class DeletionsOut(BaseModel):
    """The results, in the order of the request."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "results": [
                    {"session_id": "a1b2c3d4e5", "outcome": "deleted", "error": None},
                    {"session_id": "0f9e8d7c6b", "outcome": "not_found", "error": None},
                ],
                "deleted": 1,
            }
        }
    )

    results: list[DeletionOut]
    deleted: int = Field(description="Number of sessions deleted by this request")


class MessageDeletedOut(BaseModel):
    """The messages that were deleted."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "session_id": "a1b2c3d4e5",
                "message_index": 1,
                "deleted": ["f1e2d3c4b5"],
                "message_count": 3,
            }
        }
    )

    session_id: str
    message_index: int = Field(description="Index that the first of them had")
    deleted: list[str] = Field(description="Ids of the message and its tool calls or results")
    message_count: int = Field(description="How many messages the session has now")


class MessageHiddenOut(BaseModel):
    """The messages that are hidden, or shown, together."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "session_id": "a1b2c3d4e5",
                "message_index": 0,
                "messages": [
                    {
                        "role": "user",
                        "content": "Never mind.",
                        "message_id": "e1d2c3b4a5",
                        "timestamp": "2026-11-21T10:00:00.000000+00:00",
                        "hidden": True,
                    }
                ],
                "message_count": 4,
            }
        }
    )

    session_id: str
    message_index: int = Field(description="Index of the first of them")
    messages: list[MessageOut] = Field(description="The messages after the change")
    message_count: int = Field(description="How many messages the session has")
