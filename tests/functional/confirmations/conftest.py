"""Servers with tools that write down when they run, and a person who is asked about them."""

import os
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOOLS = '''
"""Tools whose runs can be counted."""

import os
import time

__all__ = ["note", "stay"]


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


def stay(text: str) -> str:
    """Write a line down, and go on for long.

    Args:
        text: The line.
    """
    _write(text)
    time.sleep(600)
    return "at last"
'''
CONFIRM = "tool_call_confirmation_required"


class Person:
    """A client that is asked whether tools may run."""

    def __init__(self, server, chat=None):
        self.server = server
        self.chat = chat or server.chat()
        self.http = self.chat.http
        self.say = self.chat.say
        self._runs = server.data_dir / "runs"
        tools = server.data_dir / "tools" / "notes.py"
        if not tools.exists():
            tools.parent.mkdir()
            tools.write_text(TOOLS.format(runs=str(self._runs)))

    def runs(self):
        """Return what the tools wrote down."""
        return self._runs.read_text().splitlines() if self._runs.exists() else []

    def new_session(self, **settings):
        """Make a session whose model may call the tools."""
        return self.chat.new_session(tool_settings={"tools": ["note", "stay"], **settings})

    def until(self, events, name):
        """Read events up to the next one of this name."""
        seen = []
        for event in events:
            seen.append(event)
            if event.name == name:
                return seen
        raise AssertionError([event.name for event in seen])

    @contextmanager
    def asked(self, session_id, message=None, **body):
        """Open a stream and read up to the question; yield it with the rest of the events."""
        with self.chat.stream(session_id, message=message, **body) as events:
            yield self.until(events, CONFIRM)[-1].data, events

    def send(self, session_id, message=None):
        """Chat without a stream."""
        return self.http.post(f"/chat/{session_id}", json={"message": message})

    def confirm(self, session_id, question, approved=True, **body):
        return self.http.post(
            f"/chat/{session_id}/confirm-tool",
            json={"confirmation_id": question["confirmation_id"], "approved": approved, **body},
        )

    def pending(self, session_id):
        answer = self.http.get(f"/chat/{session_id}/confirmations")
        assert answer.status_code == 200, answer.text
        return answer.json()["confirmations"]


PATCHED = {
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests/functional/durability/patched")])
}


@pytest.fixture(scope="module")
def server(start_once):
    """Return a server of two web processes, whose turns look for answers only when they are told.

    A signal that gets lost would be a turn that waits for ever.
    """
    return start_once("--workers", "2", **PATCHED, MOCHI_E2E_LOOK_AGAIN_SECONDS="3600")


@pytest.fixture
def patched():
    """Return the variables with which a server is one that tests can hurry."""
    return PATCHED


@pytest.fixture
def person(server):
    """Return a client of the module's server."""
    return Person(server)


@pytest.fixture
def begin(start):
    """Return how to start servers on one data directory, each with its client."""
    return lambda *flags, **options: Person(start(*flags, **options))


@pytest.fixture
def person_at(server):
    """Return how to be a client of one of the module's web processes."""
    return lambda worker: Person(server, server.chat_with(worker))


@pytest.fixture
def marker(request):
    """Return text by which the runs of this test are told from others'."""
    return f"{request.node.originalname}-{time.time_ns()}"


@pytest.fixture
def eventually():
    """Return how to wait for a condition; what it says in the end is returned."""

    def wait(condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.01)
        return value

    return wait
