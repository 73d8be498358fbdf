"""Real MCP servers in processes of their own, and a toolset over them."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import structlog  # noqa: F401 - or the first line that is logged imports it, on an event loop

from mochi_project.addresses import AddressPolicy, is_this_machine
from sessions_app.store.file_records import FileRecords
from tests import orphans
from tools_app.mcp.limits import McpLimits
from tools_app.mcp.login import LoginPolicy
from tools_app.mcp.login_records import LoginRecords
from tools_app.mcp.logins import McpLogins
from tools_app.mcp.toolset import McpTools
from tools_app.schemas import McpServerOut
from tools_app.toolset import ToolInvocation, ToolListing, ToolProgress, ToolResult, ToolSelection

PROGRAMS = Path(__file__).parent / "programs"


class Lab:
    """A data directory with an mcp.json, and the toolset that reads it."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "mcp.json"
        self.tokens = data_dir / ".mochi" / "mcp_tokens"
        self.late = 0.0
        self.told: list[str] = []
        self.tools: McpTools
        self.logins: McpLogins
        self.reports: list[ToolProgress] = []

    def start(
        self,
        *,
        timeout_seconds: float = 20.0,
        addresses: AddressPolicy = is_this_machine,
        **limits: Any,
    ) -> McpTools:
        files, told = FileRecords(self.tokens), self.told.append
        records = LoginRecords(files, lambda: time.time() + self.late, told)
        self.policy = LoginPolicy(records=records, addresses=addresses)
        self.tools = McpTools(
            self.path,
            timeout_seconds=timeout_seconds,
            limits=McpLimits(**{"first_pause": 0.05, **limits}),
            logins=self.policy,
        )
        self.logins = McpLogins(self.tools, records, None, 5099)
        return self.tools

    async def change_record(self, **changes: Any) -> None:
        """Change the record of the only login."""
        [key] = await self.policy.records.all()
        await self.policy.records.change(
            key, lambda record: msgspec.structs.replace(record, **changes)
        )

    async def configure(self, **servers: Any) -> None:
        text = json.dumps({"mcpServers": servers})
        await asyncio.to_thread(self.path.write_text, text)

    @staticmethod
    def raw(mode: str, *arguments: str, **entry: Any) -> dict[str, Any]:
        """Return the entry of a server that misbehaves."""
        program = str(PROGRAMS / "raw_server.py")
        return {"command": sys.executable, "args": ["-S", program, mode, *arguments], **entry}

    @classmethod
    def scripted(cls, **replies: Any) -> dict[str, Any]:
        """Return the entry of a server with replies of its own, by method with ``_`` for ``/``.

        A text is sent as it is, with the request's id for ``$ID``; else it is the result.
        """
        script = {
            method.replace("_", "/"): reply
            if isinstance(reply, str)
            else json.dumps({"jsonrpc": "2.0", "id": "$ID", "result": reply}).replace(
                '"$ID"', "$ID"
            )
            for method, reply in replies.items()
        }
        return cls.raw("scripted", json.dumps(script))

    @staticmethod
    def sdk(*arguments: str, **entry: Any) -> dict[str, Any]:
        """Return the entry of a server that is written with the SDK."""
        program = str(PROGRAMS / "sdk_server.py")
        return {"command": sys.executable, "args": [program, *arguments], **entry}

    async def listed(self, server: str) -> ToolListing:
        return await self.tools.listing(ToolSelection(group=server))

    async def call(self, tool: str, /, **arguments: Any) -> ToolResult:
        return await self.tools.call_tool(
            ToolInvocation(name=tool, arguments=arguments, report=self.reports.append)
        )

    async def server(self, name: str) -> McpServerOut:
        return next(server for server in await self.tools.servers() if server.name == name)

    async def state(self, name: str) -> str:
        return (await self.server(name)).state

    async def eventually(self, holds: Callable[[], Any], *, within: float = 60.0) -> None:
        """Wait until something holds; what it returns may be awaitable."""
        deadline = time.monotonic() + within
        while True:
            result = holds()
            if hasattr(result, "__await__"):
                result = await result
            if result:
                return
            assert time.monotonic() < deadline, "it never happened"
            await asyncio.sleep(0.02)


def children() -> set[int]:
    """Return all processes below this one, but for the suite's own, which the first one starts."""
    return {
        process.pid
        for process in psutil.Process().children(recursive=True)
        if orphans.__file__ not in line_of(process)
    }


def line_of(process: psutil.Process) -> list[str]:
    """Return the command line of a process; nothing when it is gone."""
    with suppress(psutil.NoSuchProcess):
        line: list[str] = process.cmdline()
        return line
    return []


@pytest.fixture
async def lab(data_dir: Path) -> AsyncIterator[Lab]:
    """Return a lab; when the test is over, so are its servers, and none is left."""
    before = await asyncio.to_thread(children)
    lab = Lab(data_dir)
    lab.start()
    yield lab
    await lab.tools.aclose()
    assert await asyncio.to_thread(children) <= before
