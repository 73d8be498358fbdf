"""Declares the body of the route about a session's context."""

from typing import Literal

from ninja import Schema
from pydantic import ConfigDict, Field


class ContextAttachmentOut(Schema):
    """An image or a file of a message, and what becomes of it in the next request."""

    id: str
    name: str
    media_type: str
    tokens: int = Field(description="Estimated, where it is sent; 0 where it is not")
    left_out: Literal["not_taken", "too_long"] | None = Field(
        description="Why it is only named: the model takes no such file, or the request would be "
        "too long; null where it is sent"
    )


class SentMessageOut(Schema):
    """A message that the next request sends."""

    index: int | None = Field(
        description="Its place in the session; null for what is added: a profile's prompt, a "
        "summary, the result of a call that has none"
    )
    message_id: str
    role: str
    tokens: int = Field(description="Estimated, with those of its attachments")
    attachments: list[ContextAttachmentOut] = Field(
        default_factory=list, description="Absent where it has none"
    )


class LeftOutOut(Schema):
    """A message that stays in the session and is not sent."""

    index: int
    message_id: str
    role: str
    reason: Literal["summarized", "truncated", "filtered", "without_text", "hidden"]


class EstimateOut(Schema):
    """The tokens of the next request, without the message that is not written yet."""

    tokens: int
    counted: int = Field(description="Of these, what the model's server has counted already")
    estimated: int = Field(description="And what was estimated")


class LastCountOut(Schema):
    """The tokens of the last counted request, beside what would have been estimated."""

    message_id: str = Field(description="The answer to that request")
    counted: int
    estimated: int
    error: float = Field(description="By how much the estimate is off: 0.05 is 5 % too much")


class ContextOut(Schema):
    """The messages that the next request would send, and those that it would leave out."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "session_id": "a1b2c3d4e5",
                "model": "qwen3:14b",
                "strategy": "summarize_history",
                "messages": [
                    {"index": 0, "message_id": "0a1b2c3d4e", "role": "system", "tokens": 64},
                    {
                        "index": 41,
                        "message_id": "1b2c3d4e5f",
                        "role": "user",
                        "tokens": 1012,
                        "attachments": [
                            {
                                "id": f"sha256:{'5d' * 32}",
                                "name": "cat.png",
                                "media_type": "image/png",
                                "tokens": 1000,
                                "left_out": None,
                            }
                        ],
                    },
                ],
                "left_out": [
                    {
                        "index": 1,
                        "message_id": "2c3d4e5f6a",
                        "role": "user",
                        "reason": "summarized",
                    }
                ],
                "summary": "They planned a trip to Lisbon.",
                "tools": 2,
                "tool_tokens": 180,
                "window": 8192,
                "limit": 36864,
                "threshold": 25804,
                "estimate": {"tokens": 1412, "counted": 380, "estimated": 1032},
                "last_count": {
                    "message_id": "3d4e5f6a7b",
                    "counted": 350,
                    "estimated": 343,
                    "error": -0.02,
                },
                "tokens_per_estimated_token": 1.08,
                "will_compress": False,
            }
        }
    )

    session_id: str
    model: str
    strategy: str = Field(description="How a history that is too long is made to fit")
    messages: list[SentMessageOut]
    left_out: list[LeftOutOut]
    summary: str | None = Field(description="The text in place of summarized messages")
    tools: int = Field(description="How many tools are offered")
    tool_tokens: int = Field(description="What their schemas cost, estimated")
    window: int | None = Field(
        description="Tokens that the next request asks the model to hold; null leaves it alone"
    )
    limit: int | None = Field(
        description="Tokens that request and answer may take; null while nothing is known of it"
    )
    threshold: int | None = Field(description="From so many on, messages are left out")
    estimate: EstimateOut
    last_count: LastCountOut | None
    tokens_per_estimated_token: float = Field(
        description="The model's measure, as learnt from the counts in this session"
    )
    will_compress: bool = Field(
        description="Whether the next request leaves out more first. Without a summary, `messages` "
        "and `left_out` are what comes of it; with one, what is there before the model is asked"
    )
