"""Declares the request bodies of the ``/sessions`` routes."""

from typing import Annotated, Any, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictInt,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from sessions_app.bounds import LONGEST_APPROVAL_SECONDS, MOST_ITEMS
from sessions_app.http.attachments import AttachmentIn
from sessions_app.http.sampling_options import Options
from sessions_app.http.wire_patterns import NOT_BLANK_PATTERN, PROMPT_FILE, given
from sessions_app.labels import METADATA_BYTES, METADATA_KEYS, TITLE_LENGTH
from sessions_app.policy_scope import LONGEST_GLOB, MOST_SCOPES, PolicyScope
from sessions_app.session import (
    MODEL_NAME_LENGTH,
    AgentSettings,
    ContextStrategy,
    ExecutionPolicy,
    OnCrash,
    ToolSettings,
)
from sessions_app.text_rules import MAX_PROMPT_LENGTH

MOST_DELETED = 1000
"""The largest number of sessions in one delete request."""
MOST_ID_CHARACTERS = 100

_PROMPT = "You are a helpful assistant."
_TOOLS: dict[str, Any] = {
    "tools": ["add_numbers", "get_current_time"],
    "tool_group": None,
    "execution_policy": "always_confirm",
}


def _request(example: dict[str, Any], **rules: Any) -> ConfigDict:
    """Return a model configuration that rejects unknown fields."""
    return ConfigDict(extra="forbid", json_schema_extra={"example": example, **rules})


def _is_file(field: str, *, or_null: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a field that names a prompt file.

    Beside a text, the field may be any label.
    """
    kinds = ["string", "null"] if or_null else ["string"]
    return {"properties": {field: {"type": kinds, **PROMPT_FILE}}}


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a whole number")  # noqa: TRY004 - pydantic's way to refuse
    return value


ModelName = Annotated[str, Field(min_length=1, max_length=MODEL_NAME_LENGTH)]
Name = Annotated[str, Field(min_length=1, max_length=300)]
# Whole numbers as in JSON Schema: 3 and 3.0, but neither "3" nor true.
WindowSize = Annotated[int, Field(ge=1, le=2**31 - 1), BeforeValidator(_number)]
MessageIndex = Annotated[int, Field(ge=0), BeforeValidator(_number)]


Globs = Annotated[
    dict[Name, Annotated[str, Field(max_length=LONGEST_GLOB)]],
    Field(
        min_length=1,
        max_length=MOST_SCOPES,
        description="Globs (`*`, `?`) by the names of arguments; a call must fit all of them",
    ),
]


def in_one_sentence(sentence: str) -> WrapValidator:
    """Return the validator of a union: its refusal is this sentence, not one for each member."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise ValueError(sentence) from None

    return WrapValidator(validate)


class PolicyScopeIn(BaseModel, extra="forbid"):
    """A policy for calls of a tool with certain arguments."""

    policy: ExecutionPolicy
    arguments: Globs


ToolPolicy = Annotated[
    ExecutionPolicy
    | PolicyScopeIn
    | Annotated[list[PolicyScopeIn], Field(min_length=1, max_length=MOST_SCOPES)],
    in_one_sentence(
        f"must be {', '.join(get_args(ExecutionPolicy))}, or 1 to {MOST_SCOPES} objects with "
        f"`policy` and `arguments`, which has 1 to {MOST_SCOPES} globs of at most {LONGEST_GLOB} "
        "characters"
    ),
]


class ToolSettingsIn(BaseModel, extra="forbid"):
    """The tools that the model may call, and those that need approval."""

    tools: list[Name] | None = Field(
        None, max_length=MOST_ITEMS, description="Names of single tools"
    )
    tool_group: str | None = Field(
        None, max_length=300, description="A group whose tools are offered too"
    )
    execution_policy: ExecutionPolicy | None = Field(
        None, description="Who must be asked; `always_confirm` unless given"
    )
    tool_policies: dict[Name, ToolPolicy] | None = Field(
        None,
        max_length=MOST_ITEMS,
        description="Policies of single tools, over `execution_policy`; those with `arguments` are "
        "for calls that fit them, and all other calls of the tool need approval",
    )
    approval_timeout_seconds: StrictInt | None = Field(
        None,
        ge=10,
        le=LONGEST_APPROVAL_SECONDS,
        description="How long questions about calls are open, up to 7 days; beyond 300 s, the turn "
        "ends meanwhile, and the answer starts the next one",
    )

    def to_value(self) -> ToolSettings:
        """Return the settings in the form that a session stores."""
        policies: dict[str, str] = {}
        scopes: dict[str, tuple[PolicyScope, ...]] = {}
        for name, policy in (self.tool_policies or {}).items():
            if isinstance(policy, str):
                policies[name] = policy
                continue
            policies[name] = "always_confirm"
            several = policy if isinstance(policy, list) else [policy]
            scopes[name] = tuple(PolicyScope(**dict(scope)) for scope in several)
        return ToolSettings(
            tools=tuple(self.tools or ()),
            tool_group=self.tool_group,
            execution_policy=self.execution_policy or "always_confirm",
            tool_policies=policies,
            tool_scopes=scopes,
            approval_timeout_seconds=self.approval_timeout_seconds,
        )


class AgentSettingsIn(BaseModel, extra="forbid"):
    """The agents that the model may call."""

    enabled_agents: list[Name] | None = Field(
        None, max_length=MOST_ITEMS, description="Names of agents"
    )
    selection_metadata: dict[str, Any] | None = Field(
        None,
        max_length=MOST_ITEMS,
        description="Data of the front end about how the agents were chosen",
    )

    def to_value(self) -> AgentSettings:
        """Return the settings in the form that a session stores."""
        return AgentSettings(
            enabled_agents=tuple(self.enabled_agents or ()),
            selection_metadata=self.selection_metadata,
        )


_SUMMARY_MODEL = "The model that writes summaries and titles"
_ON_CRASH = "What becomes of turns whose process dies; null: the server's default"
_CONTEXT_STRATEGIES: list[JsonValue] = [*get_args(ContextStrategy), None]
_CONTEXT_STRATEGY = "How a history that is too long is shortened; null: the server's default"


Title = Annotated[
    str,
    Field(
        description="Title of the session, on one line",
        json_schema_extra={"pattern": NOT_BLANK_PATTERN, "maxLength": TITLE_LENGTH},
    ),
]
ClientMetadata = Annotated[
    dict[str, Any],
    Field(
        description=f"Data of the client: at most {METADATA_KEYS} keys, "
        f"{METADATA_BYTES} bytes of JSON",
        max_length=METADATA_KEYS,
    ),
]


class SessionCreateIn(BaseModel):
    """A new session."""

    model_config = _request(
        {
            "model": "qwen3:14b",
            "system_prompt": _PROMPT,
            "system_prompt_source_file": "helpful.md",
            "tool_settings": _TOOLS,
            "agent_settings": {"enabled_agents": ["coder"]},
        },
        anyOf=[given("system_prompt"), _is_file("system_prompt_source_file", or_null=True)],
    )

    model: ModelName | None = Field(
        None,
        description="The model that answers; absent takes `MOCHI_DEFAULT_MODEL`, else the first "
        "one that is installed",
    )
    system_prompt: str | None = Field(
        None,
        description="Text of the system prompt",
        json_schema_extra={"maxLength": MAX_PROMPT_LENGTH},
    )
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
    on_crash: OnCrash | None = Field(None, description=_ON_CRASH)
    title: Title | None = Field(None, description="By default the server generates a title")
    metadata: ClientMetadata | None = None


class SessionUpdateIn(BaseModel):
    """The fields to change; absent ones stay as they are."""

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
    on_crash: OnCrash | None = Field(None, description=_ON_CRASH)
    context_window: WindowSize | None = Field(
        None, description="Tokens, set by hand; null returns to a window that grows by itself"
    )
    title: Title | None = Field(None, description="null: the server generates a title again")
    metadata: ClientMetadata | None = Field(None, description="Replaced whole; null removes it")
    pinned: bool = Field(default_factory=bool, description="Whether it is pinned", strict=True)
    archived: bool = Field(default_factory=bool, description="Whether it is archived", strict=True)


class MessageEditIn(BaseModel):
    """The new text of a user message."""

    model_config = _request({"content": "Updated message content"})

    content: str = Field(description="The new text; may be blank with attachments")
    attachments: list[AttachmentIn] | None = Field(
        None,
        max_length=MOST_ITEMS,
        description="The new images and files; unchanged unless given",
    )
    message_id: str | None = Field(
        None, description="Expected `message_id`; 409 if the index has another message"
    )


class MessageHiddenIn(BaseModel):
    """Hides a message from models, or shows it to them."""

    model_config = _request({"hidden": True, "message_id": "f1e2d3c4b5"})

    hidden: bool = Field(description="Whether it is hidden from models", strict=True)
    message_id: str | None = Field(
        None, description="Expected `message_id`; 409 if the index has another message"
    )


class VariantIn(BaseModel):
    """The variant to use as the answer."""

    model_config = _request({"message_id": "f1e2d3c4b5"})

    message_id: str = Field(description="The `message_id` of a message of the variant")


class SystemPromptIn(BaseModel):
    """The system prompt: its text, or the prompt file to load it from, or both."""

    model_config = _request(
        {"content": _PROMPT, "source_file": "helpful.md"},
        anyOf=[given("content"), {"required": ["source_file"], **_is_file("source_file")}],
    )

    content: str | None = Field(
        None,
        description="The text",
        json_schema_extra={"pattern": NOT_BLANK_PATTERN, "maxLength": MAX_PROMPT_LENGTH},
    )
    source_file: Name | None = Field(
        None, description="Name of a prompt file: its text is loaded, or it labels `content`"
    )


class ForkIn(BaseModel):
    """The last message to copy, by its id or its index; the last of all by default."""

    model_config = _request({"message_id": "f1e2d3c4b5"})

    message_id: str | None = Field(None, description="The last message that is copied")
    message_index: MessageIndex | None = Field(
        None, description="Its index, in place of `message_id`"
    )
    title: Title | None = Field(
        None, description="Title of the copy; by default that of the original"
    )


class DeleteIn(BaseModel):
    """The sessions to delete."""

    model_config = _request({"session_ids": ["a1b2c3d4e5", "0f9e8d7c6b"], "force": False})

    session_ids: list[Annotated[str, Field(max_length=MOST_ID_CHARACTERS)]] = Field(
        min_length=1, max_length=MOST_DELETED, description="Ids of the sessions"
    )
    force: StrictBool | None = Field(None, description="Whether running turns are cancelled first")
    agents: StrictBool | None = Field(None, description="Whether to delete agents' sessions too")
