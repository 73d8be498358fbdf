"""Claude Code and Codex look up a conversation over MCP: their models read the text of it."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall, serve
from tests.functional.openai_clients.conftest import client_program, environment
from tests.functional.recall.conftest import SECRET

__all__ = ["client_program", "environment"]
pytestmark = pytest.mark.interop

TOKEN = "a-token-that-is-long-enough"
CODEX = f"""
model = "{MODEL}"
model_provider = "mochi"
[model_providers.mochi]
name = "mochi"
base_url = "URL/v1"
wire_api = "responses"
env_key = "MOCHI_TOKEN"
[mcp_servers.mochi]
url = "URL/mcp"
bearer_token_env_var = "MOCHI_TOKEN"
"""


@pytest.fixture(scope="module")
def open_server() -> Iterator[MochiServer]:
    """Return a server with a token and MCP's door, at which something was said."""
    with serve(mcp_server=True, api_token=TOKEN) as server:
        with httpx.Client(
            base_url=f"{server.url}/api/v1", headers={"authorization": f"Bearer {TOKEN}"}
        ) as http:
            session_id = http.post("/sessions", json={"model": MODEL}).json()["session_id"]
            http.post(f"/chat/{session_id}", json={"message": SECRET}).raise_for_status()
        yield server


@pytest.fixture
def run(
    open_server: MochiServer,
    client_program: Callable[[str], str],
    environment: dict[str, str],
    tmp_path: Path,
) -> Callable[..., str]:
    """Return how a program of npm is run, at home in a folder of its own."""
    open_server.reset()
    client_program("node")
    (tmp_path / "work").mkdir()

    def run_program(name: str, *arguments: str, said: str = "") -> str:
        own = {"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path), "MOCHI_TOKEN": TOKEN}
        own |= {"ANTHROPIC_BASE_URL": open_server.url, "ANTHROPIC_AUTH_TOKEN": TOKEN}
        ended = subprocess.run(
            [str(tmp_path / "node_modules" / ".bin" / name), *arguments],
            cwd=tmp_path / "work",
            env=environment | own | {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
            capture_output=True,
            input=said,
            text=True,
            timeout=110,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run_program


def told(server: MochiServer) -> str:
    """Return the result that the program gave its model."""
    messages = server.model_requests[-1]["messages"]
    return next(each["content"] for each in reversed(messages) if each["role"] == "tool")


SEARCH = "mcp__mochi__search_conversations"
CALL = Reply(tool_calls=[ToolCall(SEARCH, {"query": "Hiiumaa"})])


def test_codex(open_server: MochiServer, run: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CODEX.replace("URL", open_server.url))
    open_server.script(CALL, "Since 1531.")
    options = ("--skip-git-repo-check", "-s", "danger-full-access")
    assert run("codex", "exec", *options, "Since when?").strip() == "Since 1531."
    record = told(open_server)
    assert SECRET in record
    assert "\n<record>\n1. session " in record
    assert "\\n" not in record


def test_claude_code(open_server: MochiServer, run: Callable[..., str]) -> None:
    url, header = f"{open_server.url}/mcp", f"Authorization: Bearer {TOKEN}"
    run("claude", "mcp", "add", "--transport", "http", "mochi", url, "--header", header)
    find = ToolCall("ToolSearch", {"query": f"select:{SEARCH}"})  # it defers tools of MCP servers
    open_server.script(Reply(tool_calls=[find]), CALL, "Since 1531.")
    answer = run("claude", "-p", "Since when?", "--model", MODEL, "--allowedTools", SEARCH)
    assert answer.strip() == "Since 1531."
    record = told(open_server)
    assert SECRET in record
    assert "\n<record>\n1. session " in record
    assert "\\n" not in record
