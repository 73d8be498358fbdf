"""The record of tool calls: the last hundred, of all workers, and statistics of them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

KEPT = 100


class ToolExecution(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool that was made.

    Attributes:
        tool_name: The tool.
        session_id: On whose behalf it ran; empty when a person ran it by hand.
        tool_call_id: The model's call; empty when a person ran it by hand.
        started_at: When, in UTC, ISO 8601.
        duration_ms: How long it took, in milliseconds.
        success: Whether it returned.
        error_code: What went wrong, for programs.
        error_message: What went wrong, for people.
        server: The MCP server that ran it, if one did.
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


class ExecutionLog:
    """Keeps the record in one file of JSON lines that all workers append to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing: set[asyncio.Task[None]] = set()

    def record(self, execution: ToolExecution) -> None:
        """Write the record in the background: no tool result waits for it."""
        raise NotImplementedError

    async def recent(self, limit: int = KEPT) -> Sequence[ToolExecution]:
        """Return the newest executions, newest first."""
        raise NotImplementedError
