"""Declares the port to the log of tool calls: what was called, when, and how it ended."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from mochi_project.principal import DEFAULT_OWNER

KEPT = 100
"""The number of records that a log keeps at least."""


class ToolExecution(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool.

    Attributes:
        tool_name: The tool.
        session_id: The session that it ran for; empty for a call by hand.
        tool_call_id: The model's call; empty for a call by hand.
        started_at: The time of its start, in UTC, ISO 8601.
        duration_ms: Its duration in milliseconds.
        success: Whether it returned.
        error_code: The failure, for programs.
        error_message: The failure, for people; at most 500 characters.
        server: The MCP server that ran it, if one did.
        owner: The owner of data that it ran for.
    """

    tool_name: str
    session_id: str
    tool_call_id: str
    started_at: str
    duration_ms: float
    success: bool
    error_code: str | None = None
    error_message: str | None = None
    server: str | None = None
    owner: str = DEFAULT_OWNER


class CallLog(Protocol):
    """Keeps the last ``KEPT`` calls of all processes and owners, or more. Its methods block."""

    def append(self, executions: Sequence[ToolExecution]) -> None:
        """Append records; ``OSError`` or ``StorageError`` if they can't be written."""
        ...

    def newest(self, limit: int, owner: str) -> Sequence[ToolExecution]:
        """Return an owner's newest records of all processes, newest first."""
        ...

    def close(self) -> None:
        """Release what is open; a later call opens it again."""
        ...
