"""Servers with an agent whose tools can be counted, held up and denied."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

SKILL = """\
---
description: Takes notes.
---
You take notes.
"""
TOOLS = '''
"""What the scribe can do."""

import os
import subprocess
import time

__destructive__ = ["erase", "rewrite"]


def _write(line: str) -> None:
    descriptor = os.open({runs!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, line.encode() + b"\\n")
    os.close(descriptor)


def note(text: str) -> str:
    """Write a line down.

    Args:
        text: The line.
    """
    _write(text)
    return f"noted {{text}}"


def erase(text: str) -> str:
    """Take a line away.

    Args:
        text: The line.
    """
    _write(f"-{{text}}")
    return f"erased {{text}}"


def rewrite(letter: str) -> str:
    """Read all lines, take a while, and write them back with one more.

    Args:
        letter: The line.
    """
    before = open({runs!r}).read() if os.path.exists({runs!r}) else ""
    time.sleep(0.05)
    with open({runs!r}, "w") as file:
        file.write(before + letter + "\\n")
    return f"wrote {{letter}}"


def shell(command: str) -> str:
    """Run a command.

    Args:
        command: The command.
    """
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


def draw(pixels: str) -> bytes:
    """Draw an image.

    Args:
        pixels: Its bytes, in hexadecimal.
    """
    return bytes.fromhex(pixels)


def ponder(seconds: float) -> str:
    """Think for a while.

    Args:
        seconds: For how long.
    """
    _write(str(os.getpid()))
    time.sleep(seconds)
    return "thought"
'''


def calls(*wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return an entry of a script in which the model calls tools."""
    return {"tool_call": [{"name": name, "args": args} for name, args in wanted]}


class Scribe:
    """A client whose session may call the agent ``scribe``."""

    def __init__(self, server: Any, script: Callable[..., str], names: Sequence[str] = ("scribe",)):
        self.server = server
        self.chat = server.chat()
        self.script = script
        self._runs = server.data_dir / "runs"
        for name in names:
            folder = server.data_dir / "agents" / name
            if not folder.exists():
                folder.mkdir(parents=True)
                (folder / "SKILL.md").write_text(SKILL)
                (folder / f"{name}.py").write_text(TOOLS.format(runs=str(self._runs)))
                exported = f"from .{name} import note, erase, rewrite, shell, draw, ponder\n"
                exported += "__all__ = ['note', 'erase', 'rewrite', 'shell', 'draw', 'ponder']\n"
                (folder / "__init__.py").write_text(exported)
        self._runs.unlink(missing_ok=True)

    def runs(self) -> list[str]:
        """Return what the tools wrote down."""
        return self._runs.read_text().splitlines() if self._runs.exists() else []

    def new_session(self, policy: str = "never_confirm", names: Sequence[str] = ("scribe",)) -> str:
        """Make a session whose model may call agents."""
        return self.chat.new_session(
            agent_settings={"enabled_agents": list(names)},
            tool_settings={"tools": [], "execution_policy": policy},
        )

    def instruct(self, *rounds: Any, **arguments: Any) -> dict[str, Any]:
        """Return the main model's call of the agent, whose own rounds are scripted."""
        instruction = self.script(*rounds, per_request=True)
        return {"agent": "scribe", "instruction": instruction, **arguments}

    def message(self, *agent_calls: dict[str, Any], after: str = "All done.") -> str:
        """Return what a person says so that the main model calls the agent, then answers."""
        return self.script(
            calls(*(("agent", call) for call in agent_calls)), after, per_request=True
        )

    def agent_chat(self, session_id: str) -> dict[str, Any]:
        """Return the file of an agent's session."""
        path = self.server.data_dir / "agents" / "agent_chats" / f"{session_id}.json"
        return json.loads(path.read_text())


@pytest.fixture(scope="module")
def make_scribe(server: Any) -> Callable[..., Scribe]:
    """Return how to make a client of the module's server."""
    return lambda script, **options: Scribe(server, script, **options)


@pytest.fixture
def scribe(make_scribe: Callable[..., Scribe], script: Callable[..., str]) -> Scribe:
    """Return a client whose sessions may call one agent."""
    return make_scribe(script)
