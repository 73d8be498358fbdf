"""Bodies of the ``/sessions`` routes."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictInt

from sessions_app.option_schemas import Options
from sessions_app.session import (
    MODEL_NAME_LENGTH,
    AgentSettings,
    ContextStrategy,
    ExecutionPolicy,
    ToolSettings,
)
from sessions_app.wire_patterns import given

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
    "eval_count": 12,
    "prompt_eval_count": 45,
}
_PROMPT = "You are a helpful assistant."


def _example(value: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": value})


def _request(example: dict[str, Any]) -> ConfigDict:
    """A body's configuration: a misspelt field is refused, not ignored."""
    return ConfigDict(extra="forbid", json_schema_extra={"example": example})


# --- What is sent ------------------------------------------------------------------------------

ModelName = Annotated[str, Field(min_length=1, max_length=MODEL_NAME_LENGTH)]
Name = Annotated[str, Field(min_length=1, max_length=300)]
WindowSize = Annotated[StrictInt, Field(ge=1, le=2**31 - 1)]


class ToolSettingsIn(BaseModel, extra="forbid"):
    """Which tools the model may call, and who is asked before they run."""

    tools: list[Name] = Field(default_factory=list, description="Names of single tools")
    tool_group: str | None = Field(None, description="A group whose tools are offered too")
    execution_policy: ExecutionPolicy = Field("always_confirm", description="Who must be asked")
    tool_policies: dict[Name, ExecutionPolicy] = Field(
        default_factory=dict, description="Policies of single tools, over `execution_policy`"
    )

    def to_value(self) -> ToolSettings:
        """Return the settings as a session keeps them."""
        return ToolSettings(
            tools=tuple(self.tools),
            tool_group=self.tool_group,
            execution_policy=self.execution_policy,
            tool_policies=self.tool_policies,
        )


class AgentSettingsIn(BaseModel, extra="forbid"):
    """Which agents the model may call."""

    enabled_agents: list[Name] = Field(default_factory=list, description="Names of agents")
    selection_metadata: dict[str, Any] | None = Field(
        None, description="Whatever the front end wants to remember of how they were chosen"
    )

    def to_value(self) -> AgentSettings:
        """Return the settings as a session keeps them."""
        return AgentSettings(
            enabled_agents=tuple(self.enabled_agents), selection_metadata=self.selection_metadata
        )


_SUMMARY_MODEL = "The model that writes summaries where `model` can't"
_CONTEXT_STRATEGIES: list[JsonValue] = [*get_args(ContextStrategy), None]
_CONTEXT_STRATEGY = "How a history that is too long is made to fit; null: the server's way"


class SessionCreateIn(BaseModel):
    """A new session."""

    model_config = _request(
        {
            "model": "qwen3:14b",
            "system_prompt": _PROMPT,
            "system_prompt_source_file": "helpful.md",
            "tool_settings": _SESSION["tool_settings"],
            "agent_settings": {"enabled_agents": ["coder"]},
        }
    )

    model: ModelName = Field(description="The model that shall answer")
    system_prompt: str | None = Field(None, description="Text of the system prompt")
    system_prompt_source_file: Name | None = Field(
        None, description="Name of a prompt file: its text is loaded, or it labels `system_prompt`"
    )
    tool_settings: ToolSettingsIn | None = None
    agent_settings: AgentSettingsIn | None = None
    options: Options = Field(None, description="Sampling options: `temperature`, `seed`, ...")
    summary_model: ModelName | None = Field(None, description=_SUMMARY_MODEL)
    context_strategy: Name | None = Field(
        None, description=_CONTEXT_STRATEGY, json_schema_extra={"enum": _CONTEXT_STRATEGIES}
    )


class SessionUpdateIn(BaseModel):
    """What shall change; what is absent stays as it is."""

    model_config = _request({"model": "llama3.1:8b", "context_window": 16384})

    # default_factory: optional in the schema, but null is refused.
    model: ModelName = Field(default_factory=str, description="The model that answers from now on")
    tool_settings: ToolSettingsIn | None = Field(
        None, description="Replaced whole; null goes back to no tools"
    )
    agent_settings: AgentSettingsIn | None = Field(
        None, description="Replaced whole; null goes back to no agents"
    )
    options: Options = Field(None, description="Replaced whole; null removes them")
    summary_model: ModelName | None = Field(None, description=_SUMMARY_MODEL)
    context_strategy: Name | None = Field(
        None, description=_CONTEXT_STRATEGY, json_schema_extra={"enum": _CONTEXT_STRATEGIES}
    )
    context_window: WindowSize | None = Field(
        None, description="Tokens, set by hand; null returns to a window that grows by itself"
    )


class MessageEditIn(BaseModel):
    """The new text of a user message."""

    model_config = _request({"content": "Updated message content"})

    content: str = Field(description="The new text")
    message_id: str | None = Field(
        None, description="The message that is meant; 409 if another stands at the index"
    )


class SystemPromptIn(BaseModel):
    """The system prompt: its text, or the prompt file to load it from, or both."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"content": _PROMPT, "source_file": "helpful.md"},
            "anyOf": [given("content"), given("source_file")],
        },
    )

    content: str | None = Field(None, description="The text")
    source_file: Name | None = Field(
        None, description="Name of a prompt file: its text is loaded, or it labels `content`"
    )


class ForkIn(BaseModel):
    """Where to cut the copy."""

    model_config = _request({"message_index": 3})

    message_index: Annotated[StrictInt, Field(ge=0)] | None = Field(
        None, description="The last message that is copied; all of them unless given"
    )


# --- What is answered --------------------------------------------------------------------------


class Summary(BaseModel):
    """What a conversation is about."""

    model_config = ConfigDict(extra="allow")

    summary: str
    topics: list[str]


class ToolSettingsOut(BaseModel):
    """Which tools the model may call, and who is asked before they run."""

    model_config = ConfigDict(extra="allow")

    tools: list[str]
    tool_group: str | None = None
    execution_policy: str
    tool_policies: dict[str, str] = Field(default_factory=dict, description="Only if there are any")


class AgentSettingsOut(BaseModel):
    """Which agents the model may call."""

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
    """What a session is a copy of."""

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


class MessageOut(BaseModel):
    """A message as it stands in the session's file; which keys there are depends on its role."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"example": _ANSWER})

    role: Literal["user", "system", "assistant", "tool"]
    content: str
    message_id: str
    timestamp: str = Field(description="UTC, ISO 8601 with microseconds")
    source_file: str | None = Field(None, description="system: the prompt file")
    model: str | None = Field(None, description="assistant: the model that answered")
    eval_count: int | None = Field(None, description="assistant: tokens of the answer")
    prompt_eval_count: int | None = Field(None, description="assistant: tokens of the request")
    tool_calls: list[ToolCallOut] | None = Field(None, description="assistant: tools asked for")
    thinking: str | None = Field(None, description="assistant: the reasoning")
    done_reason: str | None = Field(None, description="assistant: why the model stopped")
    cancelled: bool = Field(False, description="assistant: stopped by a person")
    interrupted: bool = Field(False, description="assistant: broken off")
    tool_name: str | None = Field(None, description="tool: which tool")
    tool_call_id: str | None = Field(None, description="tool: the call that this answers")
    variant_count: int | None = Field(
        None, description="assistant: how many answers were replaced by the one that begins here"
    )
    variants: "list[list[MessageOut]] | None" = Field(
        None, description="assistant: these answers, newest first; only with `?variants=true`"
    )


class SessionOut(BaseModel):
    """A session without its messages."""

    model_config = _example(_SESSION)

    session_id: str
    model: str
    created_at: str = Field(description="UTC, ISO 8601 with microseconds")
    updated_at: str = Field(description="UTC, ISO 8601 with microseconds")
    message_count: int = Field(description="All messages, system prompt included")
    tool_settings: ToolSettingsOut | None
    agent_settings: AgentSettingsOut | None
    options: dict[str, Any] | None = Field(None, description="Only if there are any")
    context_strategy: str | None = Field(None, description="Only if the session has its own")
    forked_from: ForkedFrom | None = Field(None, description="Only in a copy")


class SessionDetailOut(SessionOut):
    """A session with everything in it."""

    model_config = _example(
        {
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
    )

    summary: Summary | None
    summary_model: str | None
    context_window_config: WindowOut
    format_version: str
    preview: str | None = Field(description="Beginning of the first user message")
    messages: list[MessageOut]


class SessionEntry(BaseModel):
    """A session in a list."""

    session_id: str
    model: str
    created_at: str
    updated_at: str
    message_count: int
    summary: Summary | None
    preview: str | None = Field(description="The first user message, 100 characters at most")


class UnreadableOut(BaseModel):
    """A session file that can't be read."""

    file: str
    reason: str


class SessionListOut(BaseModel):
    """A page of sessions, most recently updated first."""

    model_config = _example(
        {
            "sessions": [
                {
                    **{key: value for key, value in _SESSION.items() if "settings" not in key},
                    "summary": _SUMMARY,
                    "preview": _USER_MESSAGE["content"],
                }
            ],
            "total": 1,
            "unreadable": [{"file": "00000000ff.json", "reason": "empty"}],
        }
    )

    sessions: list[SessionEntry]
    total: int = Field(description="How many sessions match, on all pages")
    unreadable: list[UnreadableOut]


class MessagesOut(BaseModel):
    """All messages of a session, oldest first."""

    model_config = _example({"session_id": "a1b2c3d4e5", "messages": [_USER_MESSAGE, _ANSWER]})

    session_id: str
    messages: list[MessageOut]


class MessageEditOut(BaseModel):
    """The edited message, and what it cost."""

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
    removed: int = Field(description="How many messages after it were cut off")


class SystemPromptOut(BaseModel):
    """The system prompt as it is now."""

    model_config = _example({"content": _PROMPT, "source_file": "helpful.md", "message_index": 0})

    content: str
    source_file: str | None
    message_index: int
