"""Declares the events of agents' runs, which are among those of the calling turn."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from chat.stream.attached_file import AttachedFile


class _OfAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Adds the fields that every event of an agent's run has: the agent, and the call of it."""

    agent_name: str
    call_index: int
    tool_call_id: str


class AgentStarted(_OfAgent, frozen=True, kw_only=True):
    """The model called an agent; there is no ``tool_call`` for it."""

    event: ClassVar[str] = "agent_start"
    instruction: str


class AgentPlanning(_OfAgent, frozen=True, kw_only=True, gc=False):
    """The next piece of an agent's plan."""

    event: ClassVar[str] = "agent_planning"
    content: str


class AgentExecution(_OfAgent, frozen=True, kw_only=True, gc=False):
    """The next piece of what an agent says while it carries out its plan."""

    event: ClassVar[str] = "agent_execution"
    content: str


class AgentToolCall(_OfAgent, frozen=True, kw_only=True):
    """An agent calls one of its tools, ``inner_tool_call_id`` being that call."""

    event: ClassVar[str] = "agent_tool_call"
    tool_name: str
    arguments: Mapping[str, Any]
    inner_tool_call_id: str


class AgentToolResult(_OfAgent, frozen=True, kw_only=True, omit_defaults=True):
    """A tool of an agent ran, or could not be run; its fields are those of ``tool_result``."""

    event: ClassVar[str] = "agent_tool_result"
    tool_name: str
    success: bool
    result: str | None
    error_message: str | None
    inner_tool_call_id: str
    summary: str
    execution_time_ms: float
    error_code: str | UnsetType = UNSET
    attachments: tuple[AttachedFile, ...] = ()
    arguments: Mapping[str, Any] | UnsetType = UNSET
    confirmation_id: str | UnsetType = UNSET


class AgentComplete(_OfAgent, frozen=True, kw_only=True):
    """An agent's run is over; ``output`` is what the model gets, and there is no ``tool_result``.

    ``session_id`` is the agent's session, in which it can be called again.
    """

    event: ClassVar[str] = "agent_complete"
    session_id: str
    output: str
