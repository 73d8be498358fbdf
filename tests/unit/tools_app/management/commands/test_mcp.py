"""``manage.py mcp``, with real servers."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

# The loop of a command serves nobody else.
pytestmark = pytest.mark.allow_blocking

TIME = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}
MISSING = {"command": "a-program-that-is-not-there"}

Run = Callable[..., str]
Configure = Callable[..., None]


@pytest.fixture
def run(data_dir: Path, settings: Any) -> Run:
    settings.MOCHI = settings.MOCHI.model_copy(update={"data_dir": data_dir})

    def run_command(*arguments: str) -> str:
        out = io.StringIO()
        call_command("mcp", *arguments, stdout=out, stderr=out)
        return out.getvalue()

    return run_command


@pytest.fixture
def configure(data_dir: Path) -> Configure:
    def write(**servers: Any) -> None:
        (data_dir / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    return write


def states(output: str) -> dict[str, str]:
    return {server["name"]: server["state"] for server in json.loads(output)["servers"]}


def test_without_a_file_the_list_says_where_it_would_be(run: Run, data_dir: Path) -> None:
    assert f"{data_dir}/mcp.json names no servers" in run("list")
    assert json.loads(run("list", "--json")) == {"servers": []}


def test_the_list_starts_no_server(run: Run, configure: Configure, tmp_path: Path) -> None:
    started = tmp_path / "started"
    configure(
        eager={"command": "touch", "args": [str(started)]}, off={"command": "x", "disabled": True}
    )

    assert states(run("list", "--json")) == {"eager": "stopped", "off": "disabled"}
    assert "eager" in run("list")
    assert not started.exists()


def test_the_check_starts_servers_and_shows_their_tools(run: Run, configure: Configure) -> None:
    configure(time=TIME, off={"command": "x", "disabled": True})

    shown = run("check", "--json")

    assert states(shown) == {"time": "ready", "off": "disabled"}
    (time, _) = json.loads(shown)["servers"]
    assert sorted(time["tools"]) == ["time__convert_time", "time__get_current_time"]
    assert time["error"] is None


def test_the_check_fails_when_a_server_does(run: Run, configure: Configure) -> None:
    configure(gone=MISSING, broken={})

    with pytest.raises(CommandError, match="Not usable: gone, broken"):
        run("check")


def test_one_server_can_be_checked_alone(run: Run, configure: Configure, tmp_path: Path) -> None:
    started = tmp_path / "started"
    configure(gone=MISSING, eager={"command": "touch", "args": [str(started)]})

    with pytest.raises(CommandError, match="Not usable: gone"):
        run("check", "gone")
    assert not started.exists()


def test_a_server_that_is_not_configured_is_said_so(run: Run, configure: Configure) -> None:
    configure(gone=MISSING)

    with pytest.raises(CommandError, match="no MCP server named 'nope'"):
        run("check", "nope")


def test_a_file_that_is_no_json_is_said_so(run: Run, data_dir: Path) -> None:
    (data_dir / "mcp.json").write_text("{")

    assert "can't be understood" in " ".join(run("list").split())
    with pytest.raises(CommandError, match=r"Not usable: mcp\.json"):
        run("check")
