"""Declares the response body of the route that deletes several sessions."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class DeletionErrorOut(BaseModel):
    """The error that prevented the deletion of a session."""

    code: str
    message: str


class DeletionOut(BaseModel):
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
