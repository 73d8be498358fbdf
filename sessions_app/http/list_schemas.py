"""Declares the response body of the list of sessions."""

from pydantic import BaseModel, ConfigDict, Field

from sessions_app.http.schemas import LISTED_SESSION, ListedSessionOut


class UnreadableOut(BaseModel):
    """A session file that can't be read."""

    file: str
    reason: str


COMPLETE: bool = Field(
    True, description="Whether the list is complete; false during a rebuild of the index"
)


class SessionListOut(BaseModel):
    """A page of sessions."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "sessions": [LISTED_SESSION],
                "total": 1,
                "unreadable": [{"file": "00000000ff.json", "reason": "empty"}],
                "complete": True,
            }
        }
    )

    sessions: list[ListedSessionOut]
    total: int = Field(description="How many sessions match, on all pages")
    unreadable: list[UnreadableOut]
    complete: bool = COMPLETE
    next_cursor: str | None = Field(None, description="`cursor` of the next page, if there is one")
