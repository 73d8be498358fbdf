"""Defines the bodies of the ``/tools`` and ``/mcp`` routes."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

_ADD_NUMBERS: JsonDict = {
    "name": "add_numbers",
    "title": None,
    "description": "Add two numbers together.",
    "parameters": {
        "a": {"type": "float", "description": "The first number to add."},
        "b": {"type": "float", "description": "The second number to add."},
    },
    "json_schema": {
        "type": "object",
        "properties": {
            "a": {"type": "number", "description": "The first number to add."},
            "b": {"type": "number", "description": "The second number to add."},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    "destructive": False,
    "groups": ["math"],
    "server": None,
    "icons": [],
}
_EXECUTION: JsonDict = {
    "tool_name": "add_numbers",
    "session_id": "a1b2c3d4e5",
    "tool_call_id": "call_0a1b2c",
    "started_at": "2026-01-15T10:30:00.000000+00:00",
    "duration_ms": 4.218,
    "success": True,
    "error_code": None,
    "error_message": None,
    "server": None,
}
_SERVER: JsonDict = {
    "name": "time",
    "transport": "stdio",
    "state": "ready",
    "error": None,
    "login": None,
    "tools": ["time__convert_time", "time__get_current_time"],
    "invalid": [],
}
_PROMPT: JsonDict = {
    "name": "review",
    "title": "Review a pull request",
    "description": None,
    "arguments": [{"name": "pull_request", "description": "Its number", "required": True}],
}


def _example(value: JsonDict) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": value})


class Schema(BaseModel):
    """Reads attributes as Ninja's does, whose import needs Django's settings."""

    model_config = ConfigDict(from_attributes=True)


class ToolParameterOut(Schema):
    """A parameter, described for people."""

    type: str = Field(description="The type as Python writes it")
    description: str = Field(description="What the docstring says of it")


class ToolIconOut(Schema):
    """An icon of a tool, as its MCP server names it; it was not fetched."""

    src: str = Field(description="An `https:` address, or an image as a `data:` address")
    mimeType: str | None = Field(None, description="Its media type")  # noqa: N815 - MCP's name
    sizes: list[str] = Field(description="Its sizes, such as `48x48`, or `any`")


class ToolOut(Schema):
    """A tool: its specification for models, and its properties."""

    model_config = _example(_ADD_NUMBERS)

    name: str = Field(description="The name to offer it by, and the model calls it by")
    title: str | None = Field(None, description="Its MCP server's name of it, for people")
    description: str = Field(description="What it does, as sent to models")
    parameters: dict[str, ToolParameterOut] = Field(description="The parameters, for people")
    json_schema: dict[str, Any] = Field(
        description="The whole JSON schema of the arguments, as sent to models"
    )
    destructive: bool = Field(
        description="Whether the policy `confirm_destructive` asks before it runs"
    )
    groups: list[str] = Field(description="The groups it belongs to")
    server: str | None = Field(description="The MCP server it comes from; null: the tools folder")
    icons: list[ToolIconOut] = Field(description="Its MCP server's icons of it, 4 at most")


class InvalidToolOut(Schema):
    """A function or module that can't be offered."""

    name: str = Field(description="The tool, or the module when all of it is unusable")
    file: str = Field(description="Where it is")
    reason: str = Field(description="Why it can't be offered, and what to change")


class ToolListOut(Schema):
    """All tools by name, the names by group, and what can't be offered."""

    model_config = _example(
        {
            "tools": {"add_numbers": _ADD_NUMBERS},
            "groups": {"math": ["add_numbers"]},
            "invalid": [
                {
                    "name": "send_mail",
                    "file": "mail.py",
                    "reason": "It has no docstring, which tells the model what it does: add one.",
                }
            ],
        }
    )

    tools: dict[str, ToolOut]
    groups: dict[str, list[str]]
    invalid: list[InvalidToolOut]


class ToolExecutionOut(Schema):
    """One call of a tool that was made. Arguments and results are not recorded."""

    tool_name: str
    session_id: str = Field(description="On whose behalf; empty when a person ran it by hand")
    tool_call_id: str = Field(description="The model's call; empty when a person ran it by hand")
    started_at: str = Field(description="When, in UTC")
    duration_ms: float = Field(description="How long it took, in milliseconds")
    success: bool = Field(description="Whether it returned")
    error_code: str | None = Field(description="What went wrong, for programs")
    error_message: str | None = Field(description="What went wrong, 500 characters at most")
    server: str | None = Field(description="The MCP server that ran it, if one did")


class ToolStatisticsOut(Schema):
    """Statistics of the listed calls of one tool."""

    calls: int
    failures: int
    average_ms: float = Field(description="Average duration in milliseconds")
    slowest_ms: float = Field(description="Longest duration in milliseconds")
    last_called_at: str = Field(description="When the last one started, in UTC")


class ToolExecutionsOut(Schema):
    """The last 100 calls of all web processes, newest first, and statistics of these by tool."""

    model_config = _example(
        {
            "executions": [_EXECUTION],
            "statistics": {
                "add_numbers": {
                    "calls": 1,
                    "failures": 0,
                    "average_ms": 4.218,
                    "slowest_ms": 4.218,
                    "last_called_at": "2026-01-15T10:30:00.000000+00:00",
                }
            },
        }
    )

    executions: list[ToolExecutionOut]
    statistics: dict[str, ToolStatisticsOut]


class McpLoginOut(Schema):
    """The login to an MCP server over HTTP, without secrets."""

    needed: bool = Field(description="Whether somebody has to log in, or again for more rights")
    url: str | None = Field(description="The address of a login that was begun")
    expires_at: str | None = Field(description="Until when that can be finished")
    scopes: list[str] = Field(description="The rights that the next login asks for, if known")


class LoginBegunOut(Schema):
    """A login that a person can finish in a browser."""

    model_config = _example(
        {
            "authorization_url": "https://login.example/authorize?response_type=code&state=...",
            "expires_at": "2026-01-15T10:40:00+00:00",
        }
    )

    authorization_url: str = Field(description="The address that the person opens")
    expires_at: str = Field(description="When it is too late")


class McpServerOut(Schema):
    """An MCP server that ``mcp.json`` names."""

    model_config = _example(_SERVER)

    name: str = Field(description="Its name in `mcp.json`, and the group of its tools")
    transport: str = Field(description="`stdio` or `http`; empty when the entry is unusable")
    state: str = Field(
        description=(
            "`stopped` (nobody needed it yet), `starting`, `ready`, `backing_off` (it failed and "
            "is tried again after a while), `failed`, `needs_login` or `disabled`"
        )
    )
    error: str | None = Field(description="Why it can't be used, or could not the last time")
    login: McpLoginOut | None = Field(
        None, description="Its login; null if it asked for none so far"
    )
    tools: list[str] = Field(description="Its tools, by the names that models call them by")
    invalid: list[InvalidToolOut] = Field(description="What it lists and can't be offered")


class McpServersOut(Schema):
    """All MCP servers that ``mcp.json`` names."""

    model_config = _example({"servers": [_SERVER]})

    servers: list[McpServerOut]


class McpPromptArgumentOut(Schema):
    """An argument of a prompt: a text."""

    name: str
    description: str | None = Field(None, description="What to give")
    required: bool = Field(description="Whether the prompt needs it")


class McpPromptOut(Schema):
    """A prompt of an MCP server, as the server describes it."""

    name: str
    title: str | None = Field(None, description="Its name for people")
    description: str | None = Field(None, description="What it is for")
    arguments: list[McpPromptArgumentOut]


class McpPromptsOut(Schema):
    """The prompts of an MCP server, 500 at most."""

    model_config = _example({"prompts": [_PROMPT]})

    prompts: list[McpPromptOut]


class McpPromptIn(Schema):
    """The arguments of a prompt."""

    model_config = _example({"arguments": {"pull_request": "17"}}) | ConfigDict(extra="forbid")

    arguments: dict[str, str] | None = Field(
        None, max_length=100, description="Texts by the names of arguments"
    )


class McpPromptTextOut(Schema):
    """A message of a prompt."""

    role: str = Field(description="`user` or `assistant`")
    content: str = Field(description="Its text; images and files are named only")


class McpPromptTextsOut(Schema):
    """The messages of a prompt."""

    model_config = _example({"messages": [{"role": "user", "content": "Review number 17."}]})

    messages: list[McpPromptTextOut]
