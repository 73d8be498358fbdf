"""MCP clients that nobody here wrote, at the door of a real server."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.functional.openai_clients.conftest import client_program, environment
from tests.functional.recall.conftest import SECRET

__all__ = ["client_program", "environment"]


@pytest.mark.allow_blocking
@pytest.mark.parametrize(
    ("mode", "version"),
    [("auto", "2026-07-28"), ("2026-07-28", "2026-07-28"), ("legacy", "2025-11-25")],
)
def test_the_python_client_of_both_eras(server: Any, earlier: str, mode: Any, version: str) -> None:
    async def use() -> None:
        async with Client(f"{server.url}/mcp", mode=mode) as client:
            assert client.protocol_version == version
            tools = await client.list_tools()
            assert [tool.name for tool in tools.tools][1] == "read_conversation"
            read = await client.call_tool("read_conversation", {"session_id": earlier})
            assert not read.is_error
            assert read.structured_content is None
            assert SECRET in read.content[0].text
            missing = await client.call_tool("read_conversation", {"session_id": "0123456789"})
            assert missing.is_error
            with pytest.raises(MCPError, match="session_id"):
                await client.call_tool("read_conversation", {})
            listed = await client.list_resources()
            uri = f"mochi://sessions/{earlier}"
            assert uri in [str(resource.uri) for resource in listed.resources]
            assert SECRET in (await client.read_resource(uri)).contents[0].text
            assert (await client.list_prompts()).prompts == []
            with pytest.raises(MCPError, match="There is no prompt 'ä'"):
                await client.get_prompt("ä")

    asyncio.run(use())


@pytest.mark.interop
def test_the_inspector(
    server: Any,
    earlier: str,
    client_program: Callable[[str], str],
    environment: dict[str, str],
    tmp_path: Any,
) -> None:
    node = client_program("node")

    def inspect(method: str, *arguments: str) -> dict[str, Any]:
        program = "node_modules/.bin/mcp-inspector"
        command = [node, program, "--cli", f"{server.url}/mcp", "--transport", "http"]
        done = subprocess.run(
            [*command, "--method", method, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    assert "search_conversations" in [tool["name"] for tool in inspect("tools/list")["tools"]]
    call = ("--tool-name", "search_conversations", "--tool-arg", "query=Hiiumaa")
    assert SECRET in inspect("tools/call", *call)["content"][0]["text"]
    uri = f"mochi://sessions/{earlier}"
    assert uri in str(inspect("resources/list"))
    assert SECRET in str(inspect("resources/read", "--uri", uri))
    assert inspect("prompts/list") == {"prompts": []}
