"""Turns whose process is killed: their tools, their model, and a client of another process."""

import json
from pathlib import Path

from tests.functional.conftest import names_of, read_events

TOOLS = '''
"""Tools that write down that they run, and stay as long as they are held."""

import pathlib
import time

__all__ = ["write", "read"]
__destructive__ = ["write"]
PLACE = pathlib.Path({place!r})


def _run(name: str) -> str:
    with (PLACE / "runs").open("a") as runs:
        runs.write(name + "\\n")
    while (PLACE / "held").exists():
        time.sleep(0.01)
    return "did " + name


def write() -> str:
    """Change something."""
    return _run("write")


def read() -> str:
    """Change nothing."""
    return _run("read")
'''


class Tools:
    """What the tools of a server did, and how to hold them."""

    def __init__(self, place: Path) -> None:
        self._runs, self._held = place / "runs", place / "held"

    @property
    def runs(self):
        return self._runs.read_text().split() if self._runs.exists() else []

    def hold(self):
        self._held.touch()

    def release(self):
        self._held.unlink()


def says(*texts, ends=True):
    def behave(answer):
        answer.say(*texts)
        answer.finish() if ends else answer.wait_until_closed()

    return behave


def thinks(text):
    def behave(answer):
        message = {"role": "assistant", "content": "", "thinking": text}
        answer.chunk(json.dumps({"model": "m", "message": message, "done": False}).encode() + b"\n")
        answer.wait_until_closed()

    return behave


def calls(*names):
    def behave(answer):
        made = [{"function": {"name": name, "arguments": {}}} for name in names]
        message = {"role": "assistant", "content": "", "tool_calls": made}
        answer.chunk(json.dumps({"model": "m", "message": message, "done": False}).encode() + b"\n")
        answer.finish()

    return behave


def waits(answer):
    answer.wait_until_closed()


class Scene:
    """A turn whose process is killed, as a client of another process sees it."""

    def __init__(self, server, kill, **settings):
        self.server = server
        self.owner, self.other = server.web_processes
        self.kill = kill
        first = server.chat_with(self.owner)
        self.session_id = first.new_session(**settings)
        answer = first.http.stream(
            "POST", f"/chat/{self.session_id}/stream", json={"message": "Hello!", "detached": True}
        )
        self._opened = answer
        events = read_events(answer.__enter__())
        assert next(events).name == "turn_started"
        self.chat = server.chat_with(self.other)
        self._stream = self.chat.http.stream("GET", f"/chat/{self.session_id}/stream")
        self._events = read_events(self._stream.__enter__())
        self.seen = []

    def until(self, name, times=1):
        """Read on until an event came so often; return the last one's data."""
        while names_of(self.seen).count(name) < times:
            self.seen.append(next(self._events))
        return self.seen[-1].data

    def kill_owner(self):
        self.kill(self.owner)

    def end(self):
        """Read the rest, which is numbered without a gap, and return the session's messages."""
        self.seen += self._events
        self._stream.__exit__(None, None, None)
        numbers = [int(event.id.partition(":")[2]) for event in self.seen]
        assert numbers == list(range(1, len(numbers) + 1))
        assert names_of(self.seen).count("done") == 1
        assert self.seen[-1].name == "done"
        return self.chat.messages(self.session_id)

    def of(self, name):
        return [event.data for event in self.seen if event.name == name]

    def confirm(self, question, *, approved):
        answer = self.chat.http.post(
            f"/chat/{self.session_id}/confirm-tool",
            json={"confirmation_id": question["confirmation_id"], "approved": approved},
        )
        assert answer.status_code == 200, answer.text
