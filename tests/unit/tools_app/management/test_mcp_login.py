"""``mochi-server mcp login``: with a browser here or elsewhere, with or without a server."""

import asyncio
import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command

from tests.unit.tools_app.mcp.oauth_servers import ProtectedServer, protected

# The loop of a command serves nobody else.
pytestmark = pytest.mark.allow_blocking


@pytest.fixture
def docs() -> Iterator[ProtectedServer]:
    """Return an MCP server that wants a login, in a thread of its own."""
    ready, leave = threading.Event(), asyncio.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        async with protected() as found["server"]:
            found["loop"] = asyncio.get_running_loop()
            ready.set()
            await leave.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    yield found["server"]
    found["loop"].call_soon_threadsafe(leave.set)
    thread.join(30)


class Terminal:
    """A terminal in which commands run, and what they printed."""

    def __init__(self, docs: ProtectedServer) -> None:
        self.docs = docs
        self.out = io.StringIO()
        self.pages: list[httpx.Response] = []
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

    def visit(self, **refusal: str) -> None:
        """Do what a person with a browser does."""
        back = self.docs.logins.authorize(self.address(), **refusal)
        deadline = time.monotonic() + 60
        while not self.pages:
            try:
                self.pages.append(httpx.get(back, trust_env=False))
            except httpx.ConnectError:
                assert time.monotonic() < deadline
                time.sleep(0.01)


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


@pytest.fixture
def browser(terminal: Terminal) -> Iterator[Callable[..., None]]:
    """Return how to have a person use a browser while a command runs."""
    threads: list[threading.Thread] = []

    def start(**refusal: str) -> None:
        threads.append(threading.Thread(target=terminal.visit, kwargs=refusal))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join(60)


def test_without_a_server_the_command_waits_for_the_browser_itself(
    terminal: Terminal, browser: Callable[..., None]
) -> None:
    browser()

    assert terminal.run("login", "docs").endswith("Logged in to docs.\n")

    assert terminal.opened == [terminal.address()]
    [page] = terminal.pages
    assert (page.status_code, page.text) == (
        200,
        "Logged in to docs. You can close this page.\n",
    )
    assert terminal.run("check", "docs")
    assert "docs__run" in terminal.out.getvalue()


def test_a_refusal_is_said_in_the_browser_and_in_the_terminal(
    terminal: Terminal, browser: Callable[..., None]
) -> None:
    browser(error="access_denied")

    with pytest.raises(CommandError, match="Not logged in: access_denied"):
        terminal.run("login", "docs", "--no-browser")

    assert terminal.opened == []
    assert [page.status_code for page in terminal.pages] == [400]


def test_the_address_of_a_browser_elsewhere_is_pasted(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Person:
        def readline(self) -> str:
            return f"  {terminal.docs.logins.authorize(terminal.address())}\n"

    monkeypatch.setattr("sys.stdin", Person())

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


def test_a_socket_can_only_be_pasted_for(terminal: Terminal, settings: Any) -> None:
    settings.MOCHI = settings.MOCHI.model_copy(update={"unix_socket": Path("mochi.sock")})

    with pytest.raises(CommandError, match="add --paste"):
        terminal.run("login", "docs")


def test_logging_out_forgets_the_login(terminal: Terminal, browser: Callable[..., None]) -> None:
    browser()
    terminal.run("login", "docs")

    assert "Logged out of docs." in terminal.run("logout", "docs")

    assert len(terminal.docs.logins.revoked) == 1
    with pytest.raises(CommandError, match="Not usable: docs"):
        terminal.run("check", "docs")
