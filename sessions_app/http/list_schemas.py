"""Declares the response body of the list of sessions."""

from pydantic import BaseModel, ConfigDict, Field

from sessions_app.http.schemas import LISTED_SESSION, ListedSessionOut


class UnreadableOut(BaseModel):
    """A session file that can't be read."""

    file: str
    reason: str


COMPLETE: bool = Field(
    True, description="Whether these are all; false while an index of them is made anew"
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
