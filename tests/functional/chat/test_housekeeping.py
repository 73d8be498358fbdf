"""Sessions are deleted with what runs on them, through any worker, and from a shell."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.functional.conftest import MODEL
from tests.functional.processes import run_process

ROOT = Path(__file__).parents[3]
CONFIRM = "tool_call_confirmation_required"


@pytest.fixture(scope="module")
def server(two_workers):
    return two_workers


@pytest.fixture
def at_each_worker(server):
    """Return a client of each of the two web processes."""
    return [server.chat_with(worker) for worker in server.web_processes]


def until(events, name):
    for event in events:
        if event.name == name:
            return event
    raise AssertionError(f"no {name}")


def code_of(answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize("waits", ["for its model", "for an approval"])
def test_a_session_is_deleted_with_its_turn_through_another_worker(
    server, at_each_worker, script, waits
):
    owner, other = at_each_worker
    owner.wait_for_tool("note")
    session_id = owner.new_session(tool_settings={"tools": ["note"]})
    if waits == "for its model":
        message, sign = script("Half of it", stall_seconds=600, stall_after=1), "content_delta"
    else:
        call = {"tool_call": [{"name": "note", "args": {"text": "x"}}]}
        message, sign = script(call, "Never.", per_request=True), CONFIRM
    with owner.stream(session_id, message=message) as events:
        until(events, sign)
        url = f"/sessions/{session_id}"
        assert code_of(other.http.delete(url)) == (409, "SESSION_BUSY")

        assert other.http.delete(url, params={"force": "true"}).status_code == 204

        assert [event.name for event in events][-2:] == ["cancelled", "done"]
    for client in at_each_worker:
        assert code_of(client.http.get(url)) == (404, "SESSION_NOT_FOUND")
        answer = client.http.get(f"/chat/{session_id}/confirmations")
        assert answer.status_code == 404 or answer.json()["confirmations"] == []
    assert not (server.data_dir / "chat_sessions" / f"{session_id}.json").exists()


def test_of_several_sessions_each_worker_tells_what_became_of_them(at_each_worker, script):
    owner, other = at_each_worker
    idle, running = owner.new_session(), owner.new_session()
    body: dict[str, Any] = {"session_ids": [idle, running, "ffffffffff"]}
    message = script("Half of it", stall_seconds=600, stall_after=1)
    with owner.stream(running, message=message) as events:
        until(events, "content_delta")
        told = other.http.post("/sessions/delete", json=body).json()
        assert [each["outcome"] for each in told["results"]] == ["deleted", "busy", "not_found"]
        told = other.http.post("/sessions/delete", json={**body, "force": True}).json()
        assert [each["outcome"] for each in told["results"]] == [
            *("not_found", "deleted", "not_found")
        ]
        assert [event.name for event in events][-2:] == ["cancelled", "done"]


def test_a_shell_deletes_sessions_with_the_turns_that_a_server_runs(server, chat, script):
    idle, running = chat.new_session(), chat.new_session()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MOCHI_")}
    environment |= {"MOCHI_DATA_DIR": str(server.data_dir), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mochi_server", "sessions", "delete", idle, running]
    message = script("Half of it", stall_seconds=600, stall_after=1)
    with chat.stream(running, message=message) as events:
        until(events, "content_delta")
        ended = run_process([*command, "--yes", "--force"], env=environment, cwd=server.data_dir)
        assert ended.returncode == 0, ended.stderr
        assert [event.name for event in events][-2:] == ["cancelled", "done"]
    assert ended.stdout.splitlines() == [
        f"Session {idle} is deleted.",
        f"Session {running} is deleted.",
    ]


def test_one_key_is_one_session_at_all_workers(at_each_worker):
    body = {"model": MODEL, "title": "Once"}
    key = {"Idempotency-Key": "one session"}

    def create(client):
        answer = client.http.post("/sessions", json=body, headers=key)
        assert answer.status_code == 201, answer.text
        return answer.json()["session_id"]

    with ThreadPoolExecutor(8) as pool:
        [session_id] = set(pool.map(create, at_each_worker * 8))
    assert create(at_each_worker[1]) == session_id
    listed = at_each_worker[0].http.get("/sessions", params={"q": "Once"}).json()
    assert [each["session_id"] for each in listed["sessions"]] == [session_id]
    other = at_each_worker[0].http.post("/sessions", json={"model": MODEL}, headers=key)
    assert code_of(other) == (422, "VALIDATION_ERROR")


def test_hidden_and_deleted_messages_are_not_sent_by_any_worker(server, at_each_worker):
    one, other = at_each_worker
    session_id = one.new_session()
    for text in ("My password is swordfish.", "And now?"):
        one.say(session_id, text)
    url = f"/sessions/{session_id}"
    secret, answer, *_ = one.messages(session_id)

    hidden = other.http.patch(
        f"{url}/messages/0", json={"hidden": True, "message_id": secret["message_id"]}
    )

    assert hidden.json()["messages"] == [{**secret, "hidden": True}]
    assert one.messages(session_id)[0]["hidden"] is True
    context = one.http.get(f"{url}/context").json()
    assert [entry["index"] for entry in context["messages"]] == [1, 2, 3]
    assert [(entry["index"], entry["reason"]) for entry in context["left_out"]] == [(0, "hidden")]

    for message in (secret, answer):
        gone = other.http.delete(f"{url}/messages/0", params={"message_id": message["message_id"]})
        assert gone.json()["deleted"] == [message["message_id"]]

    assert "swordfish" not in str(server.session_file(session_id))
    assert [event.name for event in one.say(session_id, "Go on.")][-1] == "done"
    assert [message["role"] for message in other.messages(session_id)] == ["user", "assistant"] * 2
