"""A server with two workers that a team shares, and clients of its owners."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

TOKEN = "s3cret"
OWNERS = ("anna", "bob")
TOOLS = '''"""What people have tools do, and what they leave behind."""

import os
from pathlib import Path

__all__ = ["note", "tell_notes", "keep_file", "whose"]
__destructive__ = []
_notes = []


def note(text: str) -> str:
    """Remember a text."""
    _notes.append(text)
    return "noted"


def tell_notes() -> list[str]:
    """Return what is remembered."""
    return _notes


def keep_file(text: str) -> str:
    """Add a text to the file of the workspace."""
    workspace = Path(os.environ["MOCHI_WORKSPACE"])
    workspace.mkdir(parents=True, exist_ok=True)
    with (workspace / "kept.txt").open("a") as file:
        file.write(text)
    return (workspace / "kept.txt").read_text()


def whose() -> str:
    """Return for whom this runs."""
    return os.environ["MOCHI_OWNER"]
'''
ANNAS_TOOL = '''"""A tool of Anna's."""

__all__ = ["annas_secret"]
__destructive__ = []
__owners__ = ["anna"]


def annas_secret() -> str:
    """Return a secret."""
    return "only for Anna"
'''
BUDGETS = [
    {"owner": "*", "period": "total", "requests": 1000},
    {"period": "total", "requests": 9999},
]
MCP = {
    "mcpServers": {
        "annas": {"command": "no-such-program-of-anna", "owners": ["anna"]},
        "broken": {"command": "x", "url": "http://127.0.0.1:9/secret-place"},
    }
}


@dataclass
class Team:
    """Has a client of each owner; `default` has the server's own token."""

    server: Any
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, owner: str) -> Any:
        return self.clients_of([owner])[owner]

    def clients_of(self, owners: list[str]) -> dict[str, Any]:
        new = [owner for owner in owners if owner not in self.clients]
        for owner, token in [(owner, self.token(owner)) for owner in new]:
            client = self.server.chat(headers={"Authorization": f"Bearer {token}"})
            deadline = time.monotonic() + 30
            while client.http.get("/sessions").status_code == 401:  # the other worker made the key
                assert time.monotonic() < deadline
                time.sleep(0.05)
            self.clients[owner] = client
        return self.clients

    def token(self, owner: str) -> str:
        if owner == "default":
            return TOKEN
        made = self.client("default").http.post("/keys", json={"owner": owner})
        assert made.status_code == 201, made.text
        return made.json()["token"]


@pytest.fixture(scope="module")
def team(start_once: Callable[..., Any]) -> Team:
    server = start_once(
        "--workers",
        "2",
        MOCHI_API_TOKEN=TOKEN,
        MOCHI_METRICS="true",
        MOCHI_METRICS_BY_OWNER="true",
        MOCHI_ACCESS_LOG="true",
        MOCHI_LOG_FORMAT="json",
    )
    (server.data_dir / "tools").mkdir(exist_ok=True)
    (server.data_dir / "tools" / "shared.py").write_text(TOOLS)
    (server.data_dir / "tools" / "annas.py").write_text(ANNAS_TOOL)
    (server.data_dir / "budgets.json").write_text(json.dumps(BUDGETS))
    (server.data_dir / "mcp.json").write_text(json.dumps(MCP))
    return Team(server)
