"""Declares the bodies of the chat routes, and the header that starts a turn once."""

from typing import Annotated, Any, Literal, Self, get_args

from ninja import Header, Schema
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    model_validator,
)
from pydantic.config import JsonDict

from chat.approvals.schemas import CONFIRMATION, ConfirmationOut
from chat.http.response_format import ResponseFormat
from models_app.language_model import ThinkLevel
from sessions_app.bounds import MOST_ITEMS
from sessions_app.errors import ValidationFailed
from sessions_app.http.attachments import AttachmentIn
from sessions_app.http.schemas import AttachmentOut, UsageOut
from sessions_app.http.wire_patterns import NOT_BLANK_PATTERN, SESSION_ID_PATTERN, given
from sessions_app.messages import DEPRECATED
from sessions_app.session import MODEL_NAME_LENGTH, OnCrash


def _thinkable(value: Any) -> Any:
    """Refuse once what no branch of the union would take: each branch would name another field."""
    if value is None or isinstance(value, bool) or value in get_args(ThinkLevel):
        return value
    raise ValueError(f"must be true, false or one of {', '.join(get_args(ThinkLevel))}")


Name = Annotated[str, Field(max_length=300)]
ModelName = Annotated[str, Field(min_length=1, max_length=MODEL_NAME_LENGTH)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key and body get the same turn, however often they are sent.",
    ),
]


# What the validator enforces, for clients to know.
_NOT_BLANK: JsonDict = {
    "anyOf": [
        {"properties": {"message": {"pattern": NOT_BLANK_PATTERN}}},
        {
            "properties": {"attachments": {"type": "array", "minItems": 1}},
            "required": ["attachments"],
        },
    ]
}


# What comes in is no Schema of Ninja's: that validates twice where further fields are forbidden.
class ChatIn(BaseModel):
    """A chat request. Without a message the answer to the last user message is (re)generated."""

    # A misspelt "message" must not pass for a request to answer the last one again.
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "message": "What does the file say?",
                "attachments": [{"data": "SGVsbG8h", "name": "hello.txt"}],
                "think": False,
            },
            "allOf": [_NOT_BLANK],
        },
    )

    message: str | None = Field(
        None,
        description="What the user says; absent or null regenerates or resumes. Blank only with "
        "attachments.",
    )
    attachments: list[AttachmentIn] | None = Field(
        None,
        max_length=MOST_ITEMS,
        description="Images and files of the message, which may then be left out: each an id, "
        '`{"id", "name"}`, or `{"data": base64, "name"}`.',
    )
    message_id: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="The message of the session to go back to. With `message` it is edited and "
        "answered, and must be one of the user; without, its answer is made again. What was said "
        "after it goes, and comes back if the turn ends without an answer. 409 `MESSAGE_CHANGED`: "
        "it is not there any more.",
    )
    think: Annotated[StrictBool | ThinkLevel | None, BeforeValidator(_thinkable)] = Field(
        None, description="Whether, or how hard, a thinking model reasons before it answers."
    )
    selected_tools: list[Name] | None = Field(
        None,
        max_length=MOST_ITEMS,
        description="The tools of this turn; absent leaves it to the session's settings.",
    )
    detached: StrictBool | None = Field(
        None,
        description="Whether the turn continues when its client disconnects; false unless given.",
    )
    on_crash: OnCrash | None = Field(
        None,
        description="What becomes of the turn if its process dies: `seal` saves what there is, "
        "`continue` lets another process go on, and detaches the turn. By default as the session "
        "says, and then the server.",
    )

    response_format: ResponseFormat | None = Field(
        None,
        description="The form of the answer. One that does not fit is corrected by the model, "
        "twice at most; what never fits is 502 `ANSWER_INVALID`.",
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        is_blank = not (self.message or "").strip()
        if is_blank and self.attachments:
            self.message = ""
        elif is_blank and self.message is not None:
            raise ValidationFailed(
                "message must not be blank without attachments; leave it out to continue from the "
                "last user message",
                field="message",
            )
        return self


class OpenChatIn(ChatIn):
    """A chat request that names its session, or makes one."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"model": "qwen3:14b", "message": "Hello!"},
            # A message alone is enough: there is a default model.
            "anyOf": [given("session_id"), given("message"), given("attachments")],
            "allOf": [_NOT_BLANK],
        },
    )

    session_id: str | None = Field(
        None,
        description="The session; absent makes a new one.",
        json_schema_extra={"pattern": SESSION_ID_PATTERN},
    )
    model: ModelName | None = Field(
        None,
        description="The model of a new session; absent takes `MOCHI_DEFAULT_MODEL`, else the "
        "first one that is installed. Beside `session_id`, another than the session's is 422.",
    )


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
