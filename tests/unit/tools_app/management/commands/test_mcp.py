"""``manage.py mcp``, with real servers, and logins to them: with a browser here or elsewhere."""

import io
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.unit.tools_app.mcp.oauth_servers import ProtectedServer, protected_in_thread

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


@pytest.fixture
def docs() -> Iterator[ProtectedServer]:
    """Return an MCP server that wants a login, in a thread of its own."""
    with protected_in_thread() as server:
        yield server


class Terminal:
    """A terminal in which commands run, and what they printed."""

    def __init__(self, docs: ProtectedServer) -> None:
        self.docs = docs
        self.out = io.StringIO()
        self.opened: list[str] = []

    def run(self, *arguments: str) -> str:
        call_command("mcp", *arguments, stdout=self.out, stderr=self.out)
        return self.out.getvalue()

    def address(self) -> str:
        """Wait for the address to open, and return it."""
        deadline = time.monotonic() + 60
        while not (found := [w for w in self.out.getvalue().split() if "/authorize?" in w]):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return found[-1]


@pytest.fixture
def terminal(data_dir: Path, settings: Any, docs: ProtectedServer, monkeypatch: Any) -> Terminal:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings.MOCHI = settings.MOCHI.model_copy(update={"data_dir": data_dir, "port": port})
    servers = {"docs": {"url": docs.url, "oauth": {"issuer": docs.logins.url}}}
    (data_dir / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    terminal = Terminal(docs)
    monkeypatch.setattr("webbrowser.open", terminal.opened.append)
    return terminal


class Person:
    """A person who visits the address that the terminal shows, and pastes where that leads to."""

    def __init__(self, terminal: Terminal, **refusal: str) -> None:
        self.terminal = terminal
        self.refusal = refusal

    def readline(self) -> str:
        return f"  {self.terminal.docs.logins.authorize(self.terminal.address(), **self.refusal)}\n"


@pytest.fixture
def person(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Person:
    person = Person(terminal)
    monkeypatch.setattr("sys.stdin", person)
    return person


@pytest.mark.usefixtures("person")
def test_without_a_server_the_address_of_the_browser_is_pasted(terminal: Terminal) -> None:
    assert terminal.run("login", "docs").endswith("Logged in to docs.\n")

    assert terminal.opened == [terminal.address()]
    assert terminal.run("check", "docs")
    assert "docs__run" in terminal.out.getvalue()


def test_a_refusal_is_said_in_the_terminal(terminal: Terminal, person: Person) -> None:
    person.refusal = {"error": "access_denied"}

    with pytest.raises(CommandError, match=r"Not logged in: .*access_denied"):
        terminal.run("login", "docs", "--no-browser")

    assert terminal.opened == []


@pytest.mark.usefixtures("person")
def test_the_address_of_a_browser_elsewhere_is_pasted_also_with_a_server(
    terminal: Terminal, settings: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings.MOCHI = settings.MOCHI.model_copy(update={"port": port})
        terminal.run("login", "docs", "--paste", "--scope", "read write")

    assert "Logged in to docs." in terminal.out.getvalue()
    assert "scope=read+write" in terminal.address()
    assert terminal.opened == []


def test_what_is_pasted_must_be_the_address_of_this_login(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("https://nowhere.example/?code=x\n"))

    with pytest.raises(CommandError, match="is not known"):
        terminal.run("login", "docs", "--paste")


@pytest.mark.usefixtures("person")
def test_it_is_pasted_where_a_server_listens_on_a_unix_socket(
    terminal: Terminal, settings: Any
) -> None:
    settings.MOCHI = settings.MOCHI.model_copy(update={"unix_socket": Path("mochi.sock")})

    assert terminal.run("login", "docs").endswith("Logged in to docs.\n")


def test_who_pastes_nothing_can_stop_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Leaving:
        def readline(self) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Leaving())

    with pytest.raises(CommandError, match="Stopped"):
        terminal.run("login", "docs")


@pytest.mark.usefixtures("person")
def test_logging_out_forgets_the_login(terminal: Terminal) -> None:
    terminal.run("login", "docs")

    assert "Logged out of docs." in terminal.run("logout", "docs")

    assert len(terminal.docs.logins.revoked) == 1
    with pytest.raises(CommandError, match="Not usable: docs"):
        terminal.run("check", "docs")
