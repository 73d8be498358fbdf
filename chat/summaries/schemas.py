"""Declares the bodies of the routes of summaries."""

from typing import Annotated

from ninja import Schema
from pydantic import ConfigDict, Field, StringConstraints

ModelName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class SummarizeIn(Schema):
    """The model that writes the summary."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"model": "qwen3:14b"}})

    model: ModelName | None = Field(
        None, description="Remembered for later summaries; absent leaves it to the session"
    )


class SummaryOut(Schema):
    """The summary of a conversation."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "summary": "The user asked about asynchronous Python.",
                "topics": ["python", "asyncio"],
                "model_used": "qwen3:14b",
            }
        }
    )

    summary: str
    topics: list[str]
    model_used: str
