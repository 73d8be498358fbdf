"""A server that has had thousands of turns is as large as it was: nothing is kept of them.

``MOCHI_E2E_GROWTH_TURNS=10000`` makes a long run of the short one.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median_low
from typing import Any

import pytest

from tests.unit.sessions_app.attachments import images

pytestmark = pytest.mark.slow

TURNS = int(os.environ.get("MOCHI_E2E_GROWTH_TURNS", "600"))
WARM_UP = 500
CLIENTS = 4
TURNS_IN_A_LAP = 10
STEPS = 4
SLACK_IN_TASKS = 1  # the chores, once a minute
KEPT_DESCRIPTORS = 4 * CLIENTS  # connections to the model and tool hosts, one more for a client
THREADS_OF_POOLS = 8  # pools that were not full before
GONE_SECONDS = 40  # connections that a client has reset stay until their timers have run
SLACK_IN_RSS = 16 * 1024 * 1024  # their stacks; holes between small objects, filled in time

ADD = '''
"""Adds."""

__all__ = ["add"]
__destructive__ = ["add"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
CALL = {"tool_call": [{"name": "add", "args": {"a": 1, "b": 2}}]}

PICTURE = images.png(padding=100_000)

Script = Callable[..., str]


class Visitor:
    """Somebody who uses everything that a turn can come to, and leaves nothing behind."""

    def __init__(self, chat: Any, script: Script) -> None:
        self._chat = chat
        self._script = script
        self._keys = 0
        self._endless = script(["a ", "b "], stall_after=1, stall_seconds=60)

    def make_a_lap(self) -> None:
        """Have ten turns in three sessions, and delete the sessions."""
        plain, calling, asking = (
            self._chat.new_session(),
            self._session_with_add("never_confirm"),
            self._session_with_add("always_confirm"),
        )
        self._speak(plain)
        self._cancel(plain)
        self._leave(plain)
        self._let_the_model_fail(plain)
        self._come_back(plain)
        self._ask_twice(plain)
        self._call_a_tool(calling)
        self._approve(asking)
        self._look_around(plain)
        self._send_files()
        for session_id in (plain, calling, asking):
            assert self._chat.http.delete(f"/sessions/{session_id}").status_code == 204

    def _session_with_add(self, policy: str) -> str:
        settings = {"tools": ["add"], "execution_policy": policy}
        session_id: str = self._chat.new_session(tool_settings=settings)
        return session_id

    def _speak(self, session_id: str) -> None:
        events = self._chat.say(session_id, self._script("Hello."))
        assert events[-1].name == "done", events
        answer = self._post(session_id, self._script("Hello again."))
        assert answer.status_code == 200, answer.text

    def _cancel(self, session_id: str) -> None:
        with self._chat.stream(session_id, message=self._endless) as events:
            _until(events, "content_delta")
            assert self._chat.cancel(session_id).status_code == 200

    def _leave(self, session_id: str) -> None:
        with self._chat.stream(session_id, message=self._endless) as events:
            _until(events, "content_delta")
        self._until_free(session_id)

    def _let_the_model_fail(self, session_id: str) -> None:
        assert self._post(session_id, self._script(status=400)).status_code == 502
        events = self._chat.say(session_id, self._script(["a ", "b "], drop_after=1))
        assert [event.name for event in events][-2:] == ["error", "done"]

    def _come_back(self, session_id: str) -> None:
        with self._chat.stream(session_id, message=self._endless, detached=True) as events:
            _until(events, "content_delta")
        with self._chat.http.stream("GET", f"/chat/{session_id}/stream") as answer:
            next(answer.iter_lines())
        assert self._chat.cancel(session_id).status_code == 200
        assert self._chat.reattach(session_id)

    def _ask_twice(self, session_id: str) -> None:
        self._keys += 1
        headers = {"Idempotency-Key": f"{session_id}-{self._keys}"}
        message = self._script("Once.")
        for _ in range(2):
            answer = self._chat.http.post(
                f"/chat/{session_id}", json={"message": message}, headers=headers
            )
            assert answer.status_code == 200, answer.text

    def _call_a_tool(self, session_id: str) -> None:
        events = self._chat.say(session_id, self._script(CALL, "Three.", per_request=True))
        assert "tool_result" in [event.name for event in events]

    def _approve(self, session_id: str) -> None:
        message = self._script(CALL, "Three.", per_request=True)
        with self._chat.stream(session_id, message=message) as events:
            asked = _until(events, "tool_call_confirmation_required")
            body = {"confirmation_id": asked.data["confirmation_id"], "approved": True}
            answer = self._chat.http.post(f"/chat/{session_id}/confirm-tool", json=body)
            assert answer.status_code == 200, answer.text
            _until(events, "done")

    def _look_around(self, session_id: str) -> None:
        for path in ("", "/status", "/context", "/messages"):
            assert self._chat.http.get(f"/sessions/{session_id}{path}").status_code == 200
        assert self._chat.http.get("/sessions", params={"q": "hello"}).status_code == 200
        assert self._chat.http.get("/sessions/0123456789").status_code == 404

    def _send_files(self) -> None:
        uploaded = self._chat.http.post("/attachments", content=PICTURE)
        assert uploaded.status_code in {200, 201}, uploaded.text
        picture = uploaded.json()["id"]
        assert self._chat.http.get(f"/attachments/{picture}").content == PICTURE
        assert self._chat.http.post("/attachments", content=PICTURE[:20]).status_code == 422
        exported = self._chat.http.get("/export", params={"format": "zip"})
        assert exported.status_code == 200, exported.text
        imported = self._chat.http.post("/import", content=b"[]")
        assert imported.status_code in {200, 503}  # imports run one by one

    def _post(self, session_id: str, message: str) -> Any:
        return self._chat.http.post(f"/chat/{session_id}", json={"message": message})

    def _until_free(self, session_id: str) -> None:
        deadline = time.monotonic() + 60
        while self._chat.http.get(f"/sessions/{session_id}/status").json()["active_turn"]:
            assert time.monotonic() < deadline, "the turn of a client that left goes on"
            time.sleep(0.002)


def _until(events: Any, name: str) -> Any:
    for event in events:
        if event.name == name:
            return event
    pytest.fail(f"no {name}")


def take_every_lock(server: Any) -> None:
    """Delete a session of each of the 256 locks, whose files stay open."""
    chat = server.chat()
    directory = server.data_dir / "chat_sessions"
    example = (directory / f"{chat.new_session()}.json").read_bytes()
    for number in range(256):
        (directory / f"{number:02x}00000000.json").write_bytes(example)
        assert chat.http.delete(f"/sessions/{number:02x}00000000").status_code == 204


def make_laps(server: Any, script: Script, turns: int) -> None:
    """Have so many turns, by several clients at once."""

    def visit(laps: int) -> None:
        chat = server.chat()
        visitor = Visitor(chat, script)
        for _ in range(laps):
            visitor.make_a_lap()
        chat.http.close()

    laps = turns // TURNS_IN_A_LAP // CLIENTS
    with ThreadPoolExecutor(CLIENTS) as pool:
        for visit_ended in [pool.submit(visit, laps) for _ in range(CLIENTS)]:
            visit_ended.result()


@pytest.mark.soak
@pytest.mark.timeout(120 + TURNS // 10)
def test_thousands_of_turns_leave_nothing_in_memory(
    probed: Callable[..., Any], script: Script
) -> None:
    server, probe = probed()
    tools = server.data_dir / "tools"
    tools.mkdir()
    (tools / "adding.py").write_text(ADD)
    take_every_lock(server)
    make_laps(server, script, WARM_UP)
    first = before = probe.look_at_rest()
    steps = []
    for _ in range(STEPS):
        make_laps(server, script, TURNS // STEPS)
        after = probe.look_at_rest(first)
        steps.append(growth(before, after))
        print(steps[-1])  # shown with `-s`, and when the test fails
        before = after
    whole = growth(first, after)
    # One object of each turn would be a leak; the sessions that are kept decoded, 64, are none.
    kinds = after.kinds_grown_since(first, at_least=TURNS // 4)
    print("in all:", whole, "; kinds:", kinds)
    deadline = time.monotonic() + GONE_SECONDS
    while kinds and time.monotonic() < deadline:
        time.sleep(0.5)
        kinds = probe.look().kinds_grown_since(first, at_least=TURNS // 4)
        print("later:", kinds)
    assert whole["descriptors"] <= KEPT_DESCRIPTORS
    assert whole["tasks"] <= SLACK_IN_TASKS
    assert whole["threads"] <= THREADS_OF_POOLS
    assert not kinds
    # A leak shows in every step, and what happens once (a table that doubles) in one. Whoever keeps
    # 1 KiB of each turn breaks this: as one object in the heap, as small ones in blocks.
    turns = TURNS // STEPS
    assert median_low(step["blocks"] for step in steps) < turns * 6
    assert median_low(step["heap"] for step in steps) < turns * 512
    assert whole["rss"] < TURNS * 1024 + SLACK_IN_RSS


def growth(before: Any, after: Any) -> dict[str, int]:
    """Return by how much each number has grown."""
    names = ("rss", "heap", "blocks", "descriptors", "threads", "tasks")
    return {name: getattr(after, name) - getattr(before, name) for name in names}
