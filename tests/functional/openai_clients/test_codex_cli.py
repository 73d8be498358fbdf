"""Codex, as its users start it, does whole tasks with a server whose model is scripted."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall, serve
from tests.functional.openai_clients.relay import Passed, relay
from tests.unit.sessions_app.attachments.images import png

pytestmark = pytest.mark.interop

GUIDE = Path(__file__).parents[3] / "docs" / "clients.md"
FREE = ("--skip-git-repo-check", "-s", "danger-full-access")
ALIASES = f"gpt-*={MODEL}"
WRITE = ToolCall("exec_command", {"cmd": "echo hello > made.txt"})
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+hello\n*** End Patch\n"
SCRIPT = "text((await tools.exec_command({cmd: 'echo hello > made.txt'})).output)"
COMPACT_AT = "model_auto_compact_token_limit = 4000\n"
MCP_SERVER = '''
"""An MCP server with one tool, over its standard streams."""
import json, sys

TOOL = {"name": "open", "description": "Open the box.", "annotations": {"readOnlyHint": True},
        "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    version = asked.get("params", {}).get("protocolVersion")
    result = {
        "initialize": {"protocolVersion": version, "capabilities": {"tools": {}},
                       "serverInfo": {"name": "box", "version": "1"}},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "A cat is in it."}]},
    }.get(asked["method"], {})
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        print(json.dumps(answer), flush=True)
'''


class Codex:
    """The program, its folders, and what it has sent."""

    def __init__(
        self, node: str, environment: dict[str, str], place: Path, url: str, passed: list[Passed]
    ) -> None:
        self.command = [node, str(place / "node_modules" / ".bin" / "codex"), "exec", *FREE]
        self.folder = place / "work"
        self.home = place / "home"
        self.url = url
        self.passed = passed
        self._environment = environment
        for folder in (self.folder, self.home):
            folder.mkdir()

    def configure(self, model: str = MODEL, more: str = "", *, built_in: bool = False) -> None:
        """Write its settings: those of the guide, or its own provider with our address."""
        [written] = re.findall(r"```toml\n(model = .*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
        guide = written.replace("http://localhost:8000", self.url).replace("qwen3:14b", model)
        own = f'model = "{model}"\nopenai_base_url = "{self.url}/v1"\n'
        (self.home / "config.toml").write_text(more + (own if built_in else guide))

    def run(self, *arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
        keys = {"CODEX_HOME": str(self.home), "HOME": str(self.home)}
        keys |= {"MOCHI_KEY": "none", "OPENAI_API_KEY": "none"}
        return subprocess.run(
            [*self.command, *arguments],
            env=self._environment | keys,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            input=said,
        )

    def made(self) -> str:
        """Return what is in the file that it was asked to make."""
        return (self.folder / "made.txt").read_text()

    @property
    def posts(self) -> list[Passed]:
        return [each for each in self.passed if each.method == "POST"]


@pytest.fixture(scope="module")
def shared() -> Iterator[MochiServer]:
    with serve(model_aliases=ALIASES) as server:
        yield server


@pytest.fixture
def server(shared: MochiServer) -> MochiServer:
    shared.reset()
    return shared


@pytest.fixture
def codex(
    server: MochiServer,
    client_program: Callable[[str], str],
    environment: dict[str, str],
    tmp_path: Path,
) -> Iterator[Codex]:
    node = client_program("node")
    with relay(server.url) as (url, passed):
        yield Codex(node, environment, tmp_path, url, passed)


@pytest.mark.parametrize(
    ("model", "call"),
    [
        (MODEL, WRITE),
        ("gpt-5.5", ToolCall("apply_patch", {"input": PATCH})),
        ("gpt-6-luna", ToolCall("exec", {"input": SCRIPT})),
    ],
)
def test_it_edits_a_file_with_any_model(server: MochiServer, codex: Codex, model: str, call: Any):
    codex.configure(model)
    server.script(Reply(reasoning="Hm", tool_calls=[call]), "I have made it.")

    ended = codex.run("Make a file.")

    assert ended.stdout.strip() == "I have made it.", ended.stderr
    assert codex.made() == "hello\n"
    assert [each.status for each in codex.posts] == [200, 200]
    assert {each.body["model"] for each in codex.posts} == {model}
    assert "Hm" in str(server.model_requests[-1]["messages"])


def test_it_goes_on_with_its_last_conversation(server: MochiServer, codex: Codex) -> None:
    codex.configure("gpt-5.5")
    server.script(Reply(tool_calls=[ToolCall("apply_patch", {"input": PATCH})]), "Done.", "Again.")
    codex.run("Make a file.")

    ended = codex.run("resume", "--last", "What have you made?")

    assert ended.stdout.strip() == "Again.", ended.stderr
    said = [each["content"] for each in server.model_requests[-1]["messages"]]
    assert ("Done." in said, said[-1]) == (True, "What have you made?")


def test_its_own_mcp_servers_are_namespaces(
    server: MochiServer, codex: Codex, tmp_path: Path
) -> None:
    (tmp_path / "box.py").write_text(MCP_SERVER)
    codex.configure()
    settings = codex.home / "config.toml"
    box = [f"command = {json.dumps(sys.executable)}", f'args = ["{tmp_path / "box.py"}"]']
    settings.write_text("\n".join([settings.read_text(), "[mcp_servers.box]", *box]))
    server.script(Reply(tool_calls=[ToolCall("mcp__box__open")]), "A cat.")

    ended = codex.run("What is in the box?")

    assert ended.stdout.strip() == "A cat.", ended.stderr
    assert "A cat is in it." in str(server.model_requests[-1]["messages"][-1])


def test_an_image_reaches_the_model(server: MochiServer, codex: Codex, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(png(32, 32))
    codex.configure("openai:gpt-5.1")
    server.script("A cat.")

    ended = codex.run("-i", str(tmp_path / "cat.png"), "--", "What is it?")

    assert ended.stdout.strip() == "A cat.", ended.stderr
    assert "data:image/png;base64," in str(server.model_requests[-1])


# --- Failures ----------------------------------------------------------------------------------


def test_it_asks_once_if_its_conversation_is_too_long(server: MochiServer, codex: Codex) -> None:
    codex.configure("gpt-5.5")

    ended = codex.run("-", said="a " * 200_000)

    assert "ran out of room" in ended.stderr
    assert [each.status for each in codex.posts] == [200]


def test_it_asks_once_if_the_model_does_not_take_the_request(
    server: MochiServer, codex: Codex
) -> None:
    codex.configure()
    server.script(Reply(status=400))

    ended = codex.run("Hello!")

    assert (ended.returncode, len(codex.posts)) == (1, 1)


def test_it_asks_once_if_there_is_no_provider(
    start: Any, client_program: Callable[[str], str], environment: dict[str, str], tmp_path: Path
) -> None:
    node = client_program("node")
    server = start(MOCHI_TEST_MODEL_URL="http://127.0.0.1:9")
    with relay(server.url) as (url, passed):
        codex = Codex(node, environment, tmp_path, url, passed)
        codex.configure()
        ended = codex.run("Hello!")
        assert (ended.returncode, len(codex.posts)) == (1, 1), ended.stderr


# --- Its own provider --------------------------------------------------------------------------


def test_its_own_provider_tries_one_socket_and_goes_on(server: MochiServer, codex: Codex) -> None:
    codex.configure(built_in=True)
    server.script("Hello!")

    ended = codex.run("Hello!")

    assert ended.stdout.strip() == "Hello!", ended.stderr
    assert [(each.method, each.status) for each in codex.passed] == [("GET", 426), ("POST", 200)]


@pytest.mark.parametrize("built_in", [False, True])
def test_it_compacts_and_goes_on(server: MochiServer, codex: Codex, built_in: bool) -> None:
    codex.configure(more=COMPACT_AT, built_in=built_in)
    server.script(Reply(tool_calls=[WRITE]), "The file is made.", "That is all.")

    ended = codex.run("Make a file.")

    assert ended.stdout.strip() == "That is all.", ended.stderr
    assert "context compacted" in ended.stderr
    triggers = [each.body["input"][-1]["type"] == "compaction_trigger" for each in codex.posts]
    assert triggers == [False, built_in, False]
    assert "The file is made." in str(server.model_requests[-1]["messages"])
