"""Declares the answers of the chat routes."""

from typing import Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from chat.approvals.schemas import CONFIRMATION, ConfirmationOut
from sessions_app.http.schemas import AttachmentOut, UsageOut
from sessions_app.messages import DEPRECATED


class ChatMessageOut(Schema):
    """The assistant's message as it is in the session, where a stopped one ends in a mark."""

    role: Literal["assistant"] = "assistant"
    content: str
    model: str
    message_id: str
    timestamp: str
    eval_count: int | None = Field(None, json_schema_extra=DEPRECATED)
    prompt_eval_count: int | None = Field(None, json_schema_extra=DEPRECATED)
    thinking: str | None = None
    done_reason: str | None = None
    cancelled: bool = Field(default=False, description="Whether it was stopped: a partial answer.")
    answered_by: str | None = Field(None, description="The model that a profile named.")
    turn_id: str | None = Field(None, description="The turn that it belongs to.")
    usage: UsageOut | None = Field(None, description="What it cost.")
    parsed: Any = Field(
        None, description="The JSON of `content`, where `response_format` wants some."
    )


class ExecutedToolCallOut(Schema):
    """One tool call of the turn."""

    tool_name: str
    tool_call_id: str
    call_index: int
    arguments: dict[str, Any]
    success: bool
    result: str | None
    error_message: str | None
    execution_time_ms: float
    attachments: list[AttachmentOut] = Field([], description="Images and files that it returned.")


class ContextWindowOut(Schema):
    """The context window of the request: tokens asked for, tokens used, and why."""

    current_window: int | None
    usage_tokens: int
    reason: str


_TEXT, _MODEL = "The capital of France is Paris.", "qwen3:14b"
_REPLY: dict[str, Any] = {
    "session_id": "a1b2c3d4e5",
    "message": {
        "role": "assistant",
        "content": _TEXT,
        "model": _MODEL,
        "message_id": "f1e2d3c4b5",
        "timestamp": "2026-01-15T10:35:00.000000+00:00",
        "usage": {"input_tokens": 120, "output_tokens": 45},
    },
    "tool_calls_executed": [],
    "context_window": {
        "current_window": 8192,
        "usage_tokens": 165,
        "reason": "initial_setup",
    },
}


class ChatOut(Schema):
    """A whole turn in one answer."""

    model_config = ConfigDict(json_schema_extra={"example": _REPLY})

    session_id: str
    message: ChatMessageOut
    tool_calls_executed: list[ExecutedToolCallOut]
    context_window: ContextWindowOut
    cancelled: bool = Field(default=False, description="Whether the turn was stopped.")
    turn_usage: UsageOut | None = Field(
        None, description="What its model calls cost together, as far as it is known."
    )


class SuspendedOut(Schema):
    """The turn ended because calls wait for an approval and no client listens to its events.

    Answer each with `confirm-tool`, then send a chat request without a message.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "session_id": "a1b2c3d4e5",
                "status": "awaiting_confirmation",
                "pending_confirmations": [CONFIRMATION],
                "tool_calls_executed": [],
            }
        }
    )

    session_id: str
    status: Literal["awaiting_confirmation"] = "awaiting_confirmation"
    pending_confirmations: list[ConfirmationOut]
    tool_calls_executed: list[ExecutedToolCallOut]


class BatchMetadata(Schema):
    """Says that the answer came whole."""

    batch_mode: Literal[True] = True


class OpenChatOut(ChatOut):
    """The answer of ``POST /chat``, with the fields that batch clients read."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                **_REPLY,
                "response": _TEXT,
                "model": _MODEL,
                "metadata": {"batch_mode": True},
            }
        }
    )

    response: str = Field(description="The answer's text.")
    model: str
    metadata: BatchMetadata


class StoppedOut(Schema):
    """The model call, tools and agents that were running when the turn was stopped."""

    upstream: bool = Field(description="Whether the model was being asked.")
    tools: list[str]
    agents: list[str]


class CancelOut(Schema):
    """A turn was stopped."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "turn_id": "0199f3a2b4c51f2e3d4c",
                "cancelled": True,
                "partial_content": "The capital of",
                "stopped": {"upstream": True, "tools": [], "agents": []},
            }
        }
    )

    turn_id: str
    cancelled: Literal[True] = True
    partial_content: str
    stopped: StoppedOut
