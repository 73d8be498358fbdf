"""The protocol's own reference servers: one in Python, two in JavaScript."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from chat.approvals.decided_calls import DecidedCall
from chat.turn.delegation import CallingTurn
from chat.turn.tool_calls import ToolCallRunner
from sessions_app.messages import ToolCall
from tools_app.available_tools import AvailableTools
from tools_app.elicitation import InputAnswer, fill
from tools_app.mcp.prompts import list_prompts
from tools_app.toolset import ToolInvocation

ROOT = Path(__file__).parents[4]
BIN = Path(sys.executable).parent


@pytest.fixture
def javascript():
    """Return a function that returns the entry of a server that npm installed."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    modules = Path(os.environ.get("MOCHI_E2E_NODE_MODULES", ROOT / "node_modules"))
    packages = {path.name: path for path in modules.glob("@modelcontextprotocol/server-*")}

    def entry(name, *arguments):
        package = packages.get(f"server-{name}")
        if package is None:
            missing = f"@modelcontextprotocol/server-{name}"
            pytest.skip(f"{missing} is not in {modules}: npm install --no-save {missing}")
        return {"command": node, "args": [str(package / "dist" / "index.js"), *arguments]}

    return entry


async def test_time(lab):
    await lab.configure(time={"command": str(BIN / "mcp-server-time")})

    listing = await lab.listed("time")
    told = await lab.call("time__get_current_time", timezone="Asia/Tokyo")
    refused = await lab.call("time__get_current_time", timezone="Middle/Earth")

    assert set(listing.groups["time"]) == {"time__get_current_time", "time__convert_time"}
    assert "Asia/Tokyo" in told.result
    assert refused.error_code == "TOOL_EXECUTION_FAILED"
    assert "Middle/Earth" in refused.error_message


@pytest.mark.interop
async def test_everything(lab, javascript):
    lab.start(timeout_seconds=1)
    await lab.configure(every=javascript("everything"))

    listing = await lab.listed("every")
    assert [invalid.name for invalid in listing.invalid] == ["every__simulate-research-query"]
    assert listing.invalid[0].reason == "It runs only as a task, which is not offered."
    assert len(listing.tools) >= 10
    assert (await lab.call("every__echo", message="hi")).result == "Echo: hi"
    picture = await lab.call("every__get-tiny-image")
    assert "[get-tiny-image.png, 4033 bytes]" in picture.result
    prompts = {prompt.name for prompt in await list_prompts(await lab.tools.server("every"))}
    assert {"simple-prompt", "args-prompt"} <= prompts
    linked = await lab.call("every__get-resource-links", count=2)
    uri, *_ = linked.links
    text = ToolInvocation(
        name="every__read_resource", arguments={"uri": uri}, links=frozenset(linked.links)
    )
    assert (await lab.tools.call_tool(text)).success
    weather = await lab.call("every__get-structured-content", location="New York")
    assert weather.result.startswith("{")
    long = await lab.call("every__trigger-long-running-operation", duration=2, steps=4)
    assert long.success
    assert [report.progress for report in lab.reports][:3] == [1, 2, 3]


@pytest.mark.interop
async def test_everything_asks_people(lab, javascript):
    async def answer(request):
        asked.append(request)
        return InputAnswer(action="accept", content=fill({"name": "Ann"}, request.schema))

    asked = []
    await lab.configure(every=javascript("everything"))
    await lab.listed("every")
    call = ToolInvocation(name="every__trigger-elicitation-request", arguments={}, ask=answer)

    result = await lab.tools.call_tool(call)

    assert result.success
    assert "Ann" in result.result
    assert [request.server for request in asked] == ["every"]


@pytest.mark.interop
async def test_everything_over_http(lab, javascript, unused_port):
    entry = javascript("everything", "streamableHttp")
    command = [entry["command"], *entry["args"]]
    environment = {**os.environ, "PORT": str(unused_port)}
    server = await asyncio.to_thread(listening_server, command, environment, unused_port)
    try:
        await lab.configure(every={"url": f"http://127.0.0.1:{unused_port}/mcp"})

        assert len((await lab.listed("every")).tools) >= 10
        assert (await lab.call("every__echo", message="hi")).result == "Echo: hi"
        calling = asyncio.create_task(
            lab.call("every__trigger-long-running-operation", duration=30, steps=60)
        )
        await lab.eventually(lambda: lab.reports)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert (await lab.call("every__echo", message="again")).success
        await lab.tools.aclose()
    finally:
        server.kill()
        await asyncio.to_thread(server.wait)


@pytest.mark.interop
async def test_filesystem(lab, javascript, inside):
    await lab.configure(fs={**javascript("filesystem", str(inside)), "trusted": True})

    listing = await lab.listed("fs")
    read = await lab.call("fs__read_text_file", path=str(inside / "note.txt"))
    refused = await lab.call("fs__read_text_file", path="/etc/passwd")

    assert not listing.tools["fs__read_text_file"].destructive
    assert listing.tools["fs__write_file"].destructive
    assert read.result == "to be read"
    assert not refused.success


@pytest.mark.interop
async def test_six_entities_of_one_answer_are_six_entities(lab, javascript, tmp_path):
    memory = tmp_path / "memory.jsonl"
    entry = {**javascript("memory"), "env": {"MEMORY_FILE_PATH": str(memory)}}
    await lab.configure(memory=entry)
    names = [f"entity {number}" for number in range(6)]

    outcomes = await run_round(
        lab,
        "memory",
        "create_entities",
        [
            {"entities": [{"name": name, "entityType": "thing", "observations": []}]}
            for name in names
        ],
    )

    assert all(outcome.event.success for outcome in outcomes)
    lines = (await asyncio.to_thread(memory.read_text)).splitlines()
    assert [json.loads(line)["name"] for line in lines] == names


@pytest.mark.interop
async def test_four_edits_of_one_file_in_one_answer_are_four_edits(lab, javascript, inside):
    await lab.configure(fs=javascript("filesystem", str(inside)))
    path = inside / "lines.txt"
    await asyncio.to_thread(path.write_text, "a\nb\nc\nd\n")

    outcomes = await run_round(
        lab,
        "fs",
        "edit_file",
        [
            {"path": str(path), "edits": [{"oldText": old, "newText": old.upper()}]}
            for old in "abcd"
        ],
    )

    assert all(outcome.event.success for outcome in outcomes)
    assert await asyncio.to_thread(path.read_text) == "A\nB\nC\nD\n"


async def run_round(lab, server, tool, arguments):
    """Run calls of one tool as those of one answer; return what came of each."""
    available = AvailableTools(tools=(await lab.listed(server)).tools)
    runner = ToolCallRunner(lab.tools, available_tools=available, session_id="a1b2c3d4e5")
    turn = CallingTurn(
        session=None,
        approver=SimpleNamespace(servers=None),  # which ask nothing
        emit=lambda events: None,
        queues=runner.queues,
        children=set(),
        why_stopped=lambda: None,
        require_hold=lambda: None,
    )
    calls = [
        DecidedCall(
            call=ToolCall(id=f"c{number}", name=f"{server}__{tool}", arguments=given),
            index=number,
            arguments=given,
        )
        for number, given in enumerate(arguments)
    ]

    async def secure(calls: Sequence[ToolCall], *, durable: bool) -> None:
        """Nothing is journalled here."""

    running = runner.run(
        calls,
        turn,
        message_id="m1",
        note=lambda call: None,
        secure=secure,
    )
    return [outcome async for outcome in running]


@pytest.fixture
def inside(tmp_path):
    directory = tmp_path / "inside"
    directory.mkdir()
    (directory / "note.txt").write_text("to be read")
    return directory


@pytest.fixture
def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening_server(command, environment, port):
    server = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server
        assert server.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
