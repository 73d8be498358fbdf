"""A person who talks to models in a terminal."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.functional.starting.dates_tool import MANAGE, block
from tests.functional.starting.terminal import CONTROL_D, READY, Terminal

STALLING = block(
    messages=[{"text_message": {"text": ["so far", " and on"]}}], stall_after=1, stall_seconds=600
)


class Person:
    """Somebody who opens conversations on one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
        self.environment = {
            **kept,
            "MOCHI_TEST_MODE": "true",
            "MOCHI_TEST_WORDS_PER_SECOND": "0",
            "MOCHI_DATA_DIR": str(data_dir),
        }
        self._opened: list[Terminal] = []

    def opens(self, *arguments: str) -> Terminal:
        return self._opens([sys.executable, MANAGE, "chat", *arguments])

    def opens_from_shell(self) -> Terminal:
        """Begin a conversation from a shell, to which CTRL-Z goes back."""
        shell = self._opens(["bash", "--norc", "--noprofile", "-i"], LC_ALL="C", PS1="$ ")
        shell.type(f"{sys.executable} {MANAGE} chat\r")
        shell.read_until("/help for commands")
        return shell

    def _opens(self, command: Sequence[str], **variables: str) -> Terminal:
        terminal = Terminal(command, cwd=self.data_dir, env={**self.environment, **variables})
        self._opened.append(terminal)
        return terminal

    def sessions(self) -> Sequence[str]:
        return sorted(path.stem for path in (self.data_dir / "chat_sessions").glob("*.json"))

    def said(self) -> Sequence[str]:
        """Return the texts of the only session."""
        (session_id,) = self.sessions()
        path = self.data_dir / "chat_sessions" / f"{session_id}.json"
        return [message["content"] for message in json.loads(path.read_text())["messages"]]

    def leaves(self) -> None:
        for terminal in self._opened:
            terminal.close()


def end(chat: Terminal) -> None:
    chat.read_until(READY)
    chat.type(CONTROL_D)
    assert chat.wait() == 0
    assert "Traceback" not in chat.seen


def serve(person: Person, start: Callable[..., Any]) -> Any:
    """Start a server on the person's data."""
    variables = {k: v for k, v in person.environment.items() if k.startswith("MOCHI_")}
    return start(*(sys.executable, "-m", "mochi_server", "--port", "0"), **variables)
