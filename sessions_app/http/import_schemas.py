"""Declares the response body of an import."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class MissingOut(BaseModel):
    """A referenced attachment that neither the import nor the server has."""

    id: str
    name: str


class ImportedSessionOut(BaseModel):
    """The result for one session."""

    session_id: str
    outcome: Literal["imported", "same", "different"] = Field(
        description="`same`: it is here already; `different`: it is here, differs, and stays"
    )
    messages: int
    attachments: int = Field(description="How many images and files its messages refer to")
    missing: list[MissingOut] = Field(
        description="Attachments that neither the import nor the server has"
    )


class ImportProblemOut(BaseModel):
    """An entry that was not imported, and the reason."""

    place: str
    reason: str


class ImportOut(BaseModel):
    """The result of an import."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "dry_run": False,
                "imported": 1,
                "same": 0,
                "different": 0,
                "branches": 0,
                "empty": 0,
                "broken": 1,
                "sessions": [
                    {
                        "session_id": "a1b2c3d4e5",
                        "outcome": "imported",
                        "messages": 8,
                        "attachments": 0,
                        "missing": [],
                    }
                ],
                "problems": [{"place": "file, entry 2", "reason": "it has no uuid"}],
                "attachments_added": 0,
                "attachments_left_out": 0,
                "left_out": [],
            }
        }
    )

    dry_run: bool = Field(description="Whether nothing was written")
    imported: int = Field(description="Sessions that are new, or would be")
    same: int = Field(description="Sessions that are here already")
    different: int = Field(description="Sessions that are here, differ, and stay")
    branches: int = Field(description="New ones that are other branches than the one shown")
    empty: int = Field(description="Conversations without messages")
    broken: int = Field(description="Entries that were not imported")
    sessions: list[ImportedSessionOut] = Field(description="The first 1,000")
    problems: list[ImportProblemOut] = Field(description="The first 1,000 broken entries")
    attachments_added: int = Field(description="Images and files that were not kept before")
    attachments_left_out: int = Field(
        description="Images and files that the export lacks; messages mention them"
    )
    left_out: list[str] = Field(description="Other files of the zip archive")
