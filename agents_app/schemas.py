"""Declares the bodies of the ``/agents`` routes."""

from typing import cast

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from sessions_app.http.list_schemas import COMPLETE, UnreadableOut
from sessions_app.http.schemas import ListedSessionOut, SessionContents, SessionEntry
from tools_app.schemas import InvalidToolOut, ToolOut

_CODER: JsonDict = {
    "name": "coder",
    "description": "A coding agent with file system operations...",
    "model": None,
    "valid": True,
    "error_message": None,
    "tool_count": 2,
    "tools": ["read_file", "write_file"],
}


# What a tool and a session look like is said in one place.
def _example_of(schema: type[BaseModel]) -> JsonDict:
    return cast("dict[str, JsonDict]", schema.model_config["json_schema_extra"])["example"]


_TOOL = _example_of(ToolOut)
_SESSION = _example_of(SessionContents)
_CHAT = {**_example_of(ListedSessionOut), "agent_name": "coder"}
del _CHAT["state"]


def _example(value: JsonDict) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": value})


class AgentOut(Schema):
    """An agent in a list."""

    model_config = _example(_CODER)

    name: str = Field(description="The name of its folder, and the one to enable it by")
    description: str = Field(description="What it is for, as sent to models")
    model: str | None = Field(description="The model it wants; null: the calling session's")
    valid: bool = Field(description="Whether it can be used")
    error_message: str | None = Field(description="Every reason why it can't, and what to change")
    tool_count: int
    tools: list[str] = Field(description="Names of its tools")


class AgentListOut(Schema):
    """All agents by name, those too that can't be used."""

    model_config = _example({"agents": {"coder": _CODER}})

    agents: dict[str, AgentOut]


class AgentDetailOut(AgentOut):
    """An agent with everything that is known of it."""

    model_config = _example(
        {
            **_CODER,
            "tool_count": 1,
            "tools": ["add_numbers"],
            "system_prompt": "You are a careful programmer...",
            "tool_details": {"add_numbers": _TOOL},
            "invalid_tools": [],
        }
    )

    system_prompt: str = Field(
        description="How it should behave: `SKILL.md` below the front matter"
    )
    tool_details: dict[str, ToolOut] = Field(description="What is known of its tools, by name")
    invalid_tools: list[InvalidToolOut] = Field(description="What it exports and can't be offered")


class AgentChatOut(SessionEntry):
    """A session of an agent in a list."""

    model_config = _example(_CHAT)

    agent_name: str | None = Field(description="Whose it is; null when the file does not say")


class AgentChatsOut(Schema):
    """Sessions of agents, most recently updated first."""

    model_config = _example({"chats": [_CHAT], "unreadable": [], "complete": True})

    chats: list[AgentChatOut]
    unreadable: list[UnreadableOut] = Field(description="Files that can't be read, and why")
    complete: bool = COMPLETE


class AgentChatDetailOut(SessionContents):
    """A session of an agent with everything in it."""

    model_config = _example({**_SESSION, "agent_name": "coder"})

    agent_name: str | None = Field(description="Whose it is; null when the file does not say")
