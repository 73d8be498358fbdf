"""Summaries in the background, on whole servers, whoever starts, stops and dies."""

import json
import signal
import time

import psutil
import pytest

from tests.functional.conftest import lives
from tests.functional.tabs import Tab

pytestmark = pytest.mark.slow


def until(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
    return found


def summary_of(server, session_id):
    return server.session_file(session_id)["metadata"]["summary"]


def runs(chat):
    return chat.http.get("/health").json()["worker_alive"]


def recorded(chat):
    """Return the sessions and purposes of the model calls in the ledger, by whatever process."""
    report = chat.http.get("/usage", params={"group_by": "session,purpose"}).json()
    return {(group["session_id"], group["purpose"]) for group in report["groups"]}


def web_and_worker(server):
    """Return the web processes, and the first process of each worker."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    workers = [c for c in children if "mochi_project.background.worker" in c.cmdline()]
    first = [c for c in workers if c.ppid() not in {other.pid for other in workers}]
    return server.web_processes, first


def test_an_answer_is_summarized_in_the_background(start):
    server = start(MOCHI_BACKGROUND_WORKER="true", MOCHI_SUMMARIZATION_INTERVAL_SECONDS="0")
    chat = server.chat()
    until(lambda: runs(chat))
    tab = Tab(server.chat())
    session_id = chat.new_session()
    answer = chat.http.get(f"/sessions/{session_id}/summary")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "SUMMARY_NOT_FOUND")

    chat.say(session_id, "Good morning!")

    tab.wait_until(lambda tab: tab.sessions.get(session_id, {}).get("summary"))
    tab.wait_until(lambda tab: tab.state_of(session_id) == "idle")
    assert tab.sessions[session_id]["titled_by"] == "model"
    made = chat.http.get(f"/sessions/{session_id}/summary").json()
    assert made["summary"]
    assert made["model_used"] == "qwen3:14b"
    until(lambda: {(session_id, "chat"), (session_id, "summary")} == recorded(chat))
    metadata = server.session_file(session_id)["metadata"]
    assert "summary_due" not in metadata
    assert metadata["message_count"] == 2

    for number in range(6):
        chat.say(session_id, f"Message {number}.")
    until(lambda: "summary_due" not in server.session_file(session_id)["metadata"])
    assert len(chat.messages(session_id)) == 14
    assert chat.http.get("/health").json()["summaries_failing"] == 0
    for file in (server.data_dir / ".mochi").glob("queue.sqlite3*"):
        assert b"Good morning" not in file.read_bytes()
    family = psutil.Process(server.process.pid).children(recursive=True)
    server.stop()
    tab.wait_for_end()
    assert not any(member.is_running() for member in family)


def test_one_of_several_web_processes_keeps_the_worker_and_another_takes_over(start):
    server = start(
        "--workers", "2", MOCHI_BACKGROUND_WORKER="true", MOCHI_SUMMARIZATION_INTERVAL_SECONDS="0"
    )
    chat = server.chat()
    until(lambda: runs(chat))
    webs, workers = web_and_worker(server)
    (worker,) = workers
    keeper = next(web for web in webs if web.pid == worker.ppid())

    keeper.send_signal(signal.SIGKILL)

    until(lambda: not lives(worker))
    chat = server.chat()
    until(lambda: runs(chat))
    assert len(web_and_worker(server)[1]) == 1
    session_id = chat.new_session()
    chat.say(session_id, "Still there?")
    until(lambda: summary_of(server, session_id))


def test_what_was_due_when_the_server_was_killed_is_found_in_its_files(start):
    server = start(MOCHI_BACKGROUND_WORKER="false")
    chat = server.chat()
    session_id = chat.new_session()
    chat.say(session_id, "Remember me.")
    server.kill()
    file = server.data_dir / "chat_sessions" / f"{session_id}.json"
    session = json.loads(file.read_text())
    assert session["metadata"]["summary_due"]
    session["metadata"]["summary_due"] = "2026-01-01T00:00:00+00:00"
    file.write_text(json.dumps(session, indent=2))

    server = start(MOCHI_BACKGROUND_WORKER="true")

    until(lambda: summary_of(server, session_id))
