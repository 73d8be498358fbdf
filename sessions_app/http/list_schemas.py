"""Declares the query parameters and the response body of the list of sessions."""

from collections.abc import Mapping
from typing import Annotated

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field

from sessions_app.errors import ValidationFailed
from sessions_app.http.schemas import LISTED_SESSION, ListedSessionOut
from sessions_app.labels import METADATA_KEYS
from sessions_app.list_query import Order, Sort, State


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


_PREFIX = "metadata."


class SessionListParams(Schema):
    """The filters and the order of a list of sessions."""

    limit: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None, description="Maximum number of sessions"
    )
    offset: int = Field(0, ge=0, le=10**9, description="Number of sessions to skip")
    q: str = Field("", max_length=500, description="Text in title, preview, summary, topics")
    pinned: bool | None = Field(None, description="Only those that are, or are not, pinned")
    archived: bool | None = Field(None, description="Only those that are, or are not, archived")
    state: State | None = Field(None, description="Only those in this state")
    sort: Sort = Field("updated", description="By time of change or creation, or by title")
    order: Order | None = Field(None, description="`desc`, for titles `asc`, unless given")
    cursor: str | None = Field(
        None, max_length=2000, description="`next_cursor` of the page before"
    )


def metadata_filters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the filters on metadata: query parameters ``metadata.<key>=<value>``.

    Raises:
        ValidationFailed: There are more filters than a session can have keys.
    """
    found = {
        name.removeprefix(_PREFIX): parameters[name]
        for name in parameters
        if name.startswith(_PREFIX)
    }
    if len(found) > METADATA_KEYS:
        raise ValidationFailed(
            f"Filter by at most {METADATA_KEYS} keys of the metadata.", field="metadata"
        )
    return found
