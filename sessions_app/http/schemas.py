"""Declares the response bodies of the ``/sessions`` routes."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, Field, create_model

from sessions_app.list_query import State
from sessions_app.messages import MESSAGE_TYPES, Attachment, ToolCall, Usage, UserMessage

_SESSION: dict[str, Any] = {
    "session_id": "a1b2c3d4e5",
    "model": "qwen3:14b",
    "created_at": "2026-01-15T10:30:00.000000+00:00",
    "updated_at": "2026-01-15T10:35:00.000000+00:00",
    "message_count": 2,
    "tool_settings": {
        "tools": ["add_numbers", "get_current_time"],
        "tool_group": None,
        "execution_policy": "always_confirm",
    },
    "agent_settings": {"enabled_agents": ["coder"], "selection_metadata": None},
}
_SUMMARY: dict[str, Any] = {
    "summary": "User asked about Python async patterns.",
    "topics": ["python", "asyncio"],
}
_USER_MESSAGE: dict[str, Any] = {
    "role": "user",
    "content": "How do I use asyncio in Python?",
    "message_id": "0f1e2d3c4b",
    "timestamp": "2026-01-15T10:34:58.000000+00:00",
}
_ANSWER: dict[str, Any] = {
    "role": "assistant",
    "content": "With async def and await.",
    "model": "qwen3:14b",
    "message_id": "f1e2d3c4b5",
    "timestamp": "2026-01-15T10:35:00.000000+00:00",
    "usage": {"input_tokens": 45, "output_tokens": 12, "total_ms": 840, "cost_usd": "0"},
}
_DETAIL: dict[str, Any] = {
    **_SESSION,
    "summary": _SUMMARY,
    "summary_model": None,
    "context_window_config": {
        "dynamic_enabled": True,
        "current_window": 8192,
        "last_adjustment": "initial_setup",
        "adjustment_history": [],
        "manual_override": False,
    },
    "format_version": "1.3",
    "preview": _USER_MESSAGE["content"],
    "messages": [_USER_MESSAGE, _ANSWER],
}
LISTED_SESSION: dict[str, Any] = {
    **{key: value for key, value in _SESSION.items() if "settings" not in key},
    "summary": _SUMMARY,
    "preview": _USER_MESSAGE["content"],
    "state": "idle",
}
_PROMPT = "You are a helpful assistant."


def _example(value: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": value})


class Summary(BaseModel):
    """A summary of the conversation, and its topics."""

    model_config = ConfigDict(extra="allow")

    summary: str
    topics: list[str]


class PolicyScopeOut(BaseModel):
    """A policy for calls of a tool with certain arguments."""

    policy: str
    arguments: dict[str, str] = Field(description="Globs by the names of arguments")


class ToolSettingsOut(BaseModel):
    """The tools that the model may call, and those that need approval."""

    model_config = ConfigDict(extra="allow")

    tools: list[str]
    tool_group: str | None = None
    execution_policy: str
    tool_policies: dict[str, str | list[PolicyScopeOut]] = Field(
        default_factory=dict, description="Only if there are any"
    )
    approval_timeout_seconds: int | None = Field(None, description="Only if it is set")


class AgentSettingsOut(BaseModel):
    """The agents that the model may call."""

    model_config = ConfigDict(extra="allow")

    enabled_agents: list[str]
    selection_metadata: dict[str, Any] | None


class WindowOut(BaseModel):
    """The context window."""

    model_config = ConfigDict(extra="allow")

    dynamic_enabled: bool = Field(description="Whether it grows by itself")
    current_window: int | None = Field(description="Tokens; null until the next request decides")
    last_adjustment: str | None
    adjustment_history: list[dict[str, Any]] = Field(description="The last ten changes")
    manual_override: bool = Field(description="Whether it was set by hand")


class ForkedFrom(BaseModel):
    """The session that this one is a copy of."""

    session_id: str
    message_index: int


class FunctionOut(BaseModel):
    """A function and its arguments."""

    model_config = ConfigDict(extra="allow")

    name: str
    arguments: dict[str, Any]


class ToolCallOut(BaseModel):
    """A tool that the model asked for."""

    model_config = ConfigDict(extra="allow")

    id: str
    function: FunctionOut
    client_side: bool = Field(False, description="Whether a client runs it, and not the server")


class UsageOut(BaseModel):
    """The tokens, times and cost of model calls; unknown values are null or left out."""

    model_config = ConfigDict(extra="allow", from_attributes=True)

    input_tokens: int | None = Field(None, description="Tokens of the requests, cached ones too")
    output_tokens: int | None = Field(None, description="Tokens of the answers, reasoning too")
    cached_tokens: int | None = Field(None, description="Cached tokens of the requests")
    cache_write_tokens: int | None = Field(None, description="Tokens put into the cache")
    reasoning_tokens: int | None = Field(None, description="Reasoning tokens of the answers")
    first_token_ms: int | None = Field(None, description="Until the first output, milliseconds")
    total_ms: int | None = Field(None, description="Until the end, milliseconds")
    cost_usd: str | None = Field(None, description="US dollars by the prices then, as a decimal")


class AttachmentOut(BaseModel):
    """An image or a file of a message; `GET /attachments/{id}` sends its bytes."""

    model_config = ConfigDict(
        extra="allow",
        from_attributes=True,
        json_schema_extra={
            "example": {
                "id": f"sha256:{'9f' * 32}",
                "name": "cat.png",
                "media_type": "image/png",
                "size": 51234,
                "width": 800,
                "height": 600,
            }
        },
    )

    id: str = Field(description="`sha256:` and the digest of the bytes")
    name: str
    media_type: str = Field(description="Media type that the server detected")
    size: int = Field(description="Bytes")
    width: int | None = Field(None, description="Pixels, of an image")
    height: int | None = Field(None, description="Pixels, of an image")


_FIELD_TYPES: Mapping[Any, Any] = {
    Sequence[ToolCall]: list[ToolCallOut],
    Usage | None: UsageOut,
    tuple[Attachment, ...]: list[AttachmentOut],
}
"""Maps types of message fields to the schemas in this module."""

Body = TypeVar("Body", bound=BaseModel)


def with_message_fields(body: type[Body]) -> type[Body]:
    """Return a body with the fields of messages of all roles, as declared by their structs.

    Fields without a description are internal, or declared in the body itself.
    """
    fields: dict[str, Any] = {}
    for message_type in MESSAGE_TYPES:
        for field in msgspec.structs.fields(message_type):
            if field.name not in body.model_fields and get_origin(field.type) is Annotated:
                declared, meta = get_args(field.type)
                kind = _FIELD_TYPES.get(declared, declared)
                is_shared = field.name in UserMessage.__struct_fields__
                description, extra = meta.description, meta.extra_json_schema
                if not is_shared:
                    description = f"{message_type.role}: {description}"
                fields[field.name] = (
                    (bool, Field(False, description=description))
                    if kind is bool
                    else (
                        kind | None,
                        Field(None, description=description, json_schema_extra=extra),
                    )
                )
    return create_model(body.__name__, __base__=body, __doc__=body.__doc__, **fields)


@with_message_fields
class MessageFields(BaseModel):
    """The fields of messages of all roles."""

    role: Literal["user", "system", "assistant", "tool"]
    content: str
    message_id: str
    timestamp: str = Field(description="UTC, ISO 8601 with microseconds")


class MessageOut(MessageFields):
    """A message as stored in the session's file; its keys depend on its role."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": _ANSWER})

    variant_count: int | None = Field(
        None, description="assistant: number of answers that this one replaced"
    )
    variants: "list[list[MessageOut]] | None" = Field(
        None,
        description="assistant: the replaced answers, newest first; only with `?variants=true`",
    )


class SessionLabels(BaseModel):
    """The labels of a session: lists show them, and are filtered by them."""

    title: str | None = Field(None, description="Title, if there is one")
    titled_by: Literal["person", "model", "message"] | None = Field(
        None, description="Source of the title; `message`: the beginning of the first message"
    )
    metadata: dict[str, Any] | None = Field(None, description="Data of the clients")
    pinned: bool = False
    archived: bool = False


class SessionOut(SessionLabels):
    """A session without its messages."""

    model_config = _example(_SESSION)

    session_id: str
    model: str
    created_at: str = Field(description="UTC, ISO 8601 with microseconds")
    updated_at: str = Field(description="UTC, ISO 8601 with microseconds")
    message_count: int = Field(description="All messages, system prompt included")
    tool_settings: ToolSettingsOut
    agent_settings: AgentSettingsOut
    options: dict[str, Any] | None = Field(None, description="Only if there are any")
    context_strategy: str | None = Field(None, description="Only if the session has its own")
    on_crash: str | None = Field(None, description="Only if the session has its own")
    forked_from: ForkedFrom | None = Field(None, description="Only in a copy")


class SessionSavedOut(SessionOut):
    """A session after saving, with warnings about its settings."""

    model_config = _example({**_SESSION, "warnings": ["no agent is called `coder`"]})

    warnings: list[str] = Field(
        description="A sentence for each enabled tool, group or agent that does not exist"
    )


STATE: State = Field(
    description=(
        "Activity in any process: an approval is pending (`awaiting_approval`), a turn runs, or "
        "neither (`idle`)"
    )
)


class SessionContents(SessionOut):
    """A session with its messages and settings."""

    model_config = _example(_DETAIL)

    summary: Summary | None
    summary_model: str | None
    context_window_config: WindowOut
    format_version: str
    preview: str | None = Field(description="Beginning of the first user message")
    messages: list[MessageOut]


class SessionDetailOut(SessionContents):
    """A session with its messages, settings and state."""

    model_config = _example({**_DETAIL, "state": "idle"})

    state: State = STATE


PauseReason = Annotated[str, Field(json_schema_extra={"enum": ["cancelled", "failed"]})]
"""Why an inbox is paused; no Literal, as a later server's file may have other values."""


class SessionEntry(SessionLabels):
    """A session in a list."""

    session_id: str
    model: str
    created_at: str
    updated_at: str
    message_count: int
    summary: Summary | None
    preview: str | None = Field(description="The first user message, 100 characters at most")
    queued: int = Field(0, description="Messages that wait for the next turn; left out without any")
    queue_paused: PauseReason | None = Field(
        None, description="Why no turn takes them: `cancelled`, `failed`; left out without any"
    )


class ListedSessionOut(SessionEntry):
    """A session in a list, with its state."""

    model_config = _example(LISTED_SESSION)

    state: State = STATE


class MessagesOut(BaseModel):
    """All messages of a session, oldest first."""

    model_config = _example({"session_id": "a1b2c3d4e5", "messages": [_USER_MESSAGE, _ANSWER]})

    session_id: str
    messages: list[MessageOut]


class MessageEditOut(BaseModel):
    """The edited message, and the number of messages removed."""

    model_config = _example(
        {
            "session_id": "a1b2c3d4e5",
            "message_index": 0,
            "message": {**_USER_MESSAGE, "content": "Updated message content"},
            "message_count": 1,
            "removed": 1,
        }
    )

    session_id: str
    message_index: int
    message: MessageOut
    message_count: int = Field(description="How many messages there are now")
    removed: int = Field(description="Number of later messages that were removed")


class VariantOut(BaseModel):
    """The answer after the change."""

    model_config = _example(
        {
            "session_id": "a1b2c3d4e5",
            "message_index": 1,
            "messages": [{**_ANSWER, "variant_count": 1}],
            "message_count": 2,
        }
    )

    session_id: str
    message_index: int = Field(description="Index of its first assistant message")
    messages: list[MessageOut] = Field(description="The answer, with its tool calls and results")
    message_count: int = Field(description="How many messages the session has now")


class SystemPromptOut(BaseModel):
    """The system prompt after the change."""

    model_config = _example({"content": _PROMPT, "source_file": "helpful.md", "message_index": 0})

    content: str
    source_file: str | None
    message_index: int
