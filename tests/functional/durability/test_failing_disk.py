"""A data directory that fails under a running server, and can be written to again."""

import contextlib
import http.client
import json
import urllib.parse

import httpx
import pytest

from tests.functional.agents.conftest import Scribe, calls
from tests.functional.conftest import MODEL
from tests.unit.sessions_app.attachments import images


@pytest.fixture
def switch(tmp_path):
    """A file: while it is there, servers find their data directory read-only."""
    (tmp_path / "faults").mkdir()
    return tmp_path / "faults" / "readonly"


@pytest.fixture
def begin(start, patched, switch):
    """How to start servers that the switch works on."""

    def begin(*flags):
        return start(*flags, **patched, MOCHI_E2E_FAULTS=str(switch.parent))

    return begin


def test_a_read_only_data_directory_keeps_nobody_waiting(begin, switch, script):
    server = begin("--workers", "2")
    owner, other = (server.chat_with(worker) for worker in server.web_processes)
    session_id = owner.new_session()
    endless = script(["Half "] * 400, words_per_second=50)
    with owner.stream(session_id, message=endless) as events:
        seen = [next(events) for _ in range(3)]
        with other.http.stream("GET", f"/chat/{session_id}/stream") as following:
            lines = following.iter_lines()
            assert next(lines)
            switch.touch()
            seen += list(events)
            followed = [line for line in lines if line.startswith("event: ")]
    assert followed[-2:] == ["event: error", "event: done"]
    assert [event.name for event in seen][-2:] == ["error", "done"]
    assert seen[-2].data["code"] == "STORAGE_READ_ONLY"
    assert seen[-2].data["details"]["retryable"] is True
    text = "".join(event.data["content"] for event in seen if event.name == "content_delta")

    for chat in (owner, other):
        assert chat.http.get("/health").status_code == 200
        assert chat.http.get("/sessions").status_code == 200
        assert len(chat.messages(session_id)) == 1
        assert chat.http.get(f"/sessions/{session_id}/status").json()["active_turn"] is None
        assert chat.cancel(session_id).json()["error"]["code"] == "NO_ACTIVE_TURN"
        assert [event.name for event in chat.reattach(session_id)][-2:] == ["error", "done"]
        for refused in (
            chat.http.post(f"/chat/{session_id}", json={"message": "x"}),
            chat.http.post("/sessions", json={"model": "qwen3:14b"}),
            chat.http.delete(f"/sessions/{session_id}"),
        ):
            assert refused.status_code == 507, refused.text
            assert refused.json()["error"]["details"]["retryable"] is True

    switch.unlink()
    assert other.say(session_id, script("alive"))[-2].name == "message_complete"
    partial = owner.messages(session_id)[1]
    assert (partial["content"], partial["interrupted"]) == (text.strip(), True)


def test_an_agents_tool_whose_result_could_not_be_saved_is_not_run_again(
    begin, switch, script, tmp_path
):
    runs = tmp_path / "runs"
    scribe = Scribe(begin(), script)
    session_id = scribe.new_session()
    command = f"echo ran >> {runs}; touch {switch}"
    instruction = scribe.instruct("Plan.", calls(("shell", {"command": command})), "Done.")
    events = scribe.chat.say(session_id, scribe.message(instruction))
    assert [event.name for event in events][-2:] == ["error", "done"]
    for _ in range(2):
        refused = scribe.chat.http.post(f"/chat/{session_id}", json={"message": None})
        assert refused.status_code == 507
    switch.unlink()
    assert scribe.chat.say(session_id)[-2].name == "message_complete"
    assert runs.read_text() == "ran\n"
    [result] = [m for m in scribe.chat.messages(session_id) if m["role"] == "tool"]
    assert result["content"] == "interrupted, not run again"


def test_an_upload_that_the_disk_takes_half_of_is_refused_and_leaves_nothing(
    begin, switch, eventually
):
    server = begin()
    chat, data = server.chat(), images.png(padding=1_000_000)
    folder = server.data_dir / "attachments"
    url = urllib.parse.urlsplit(server.url)
    for fault, code in (("full", "STORAGE_FULL"), ("readonly", "STORAGE_READ_ONLY")):
        with contextlib.closing(http.client.HTTPConnection(url.netloc, timeout=60)) as upload:
            upload.putrequest("POST", "/api/v1/attachments")
            upload.putheader("Content-Length", str(len(data)))
            upload.endheaders(data[:500_000])
            eventually(lambda: any(one.stat().st_size for one in folder.glob(".incoming/*")))
            switch.with_name(fault).touch()
            upload.send(data[500_000:])
            answer = upload.getresponse()
            error = json.loads(answer.read())["error"]
        assert (answer.status, error["code"]) == (507, code)
        assert list(folder.glob("??/*")) == []
        switch.with_name(fault).unlink()
        for left in folder.glob(".incoming/*"):
            assert fault == "readonly" or left.suffix == ".lock"
            left.unlink()
    assert chat.http.post("/attachments", content=data).status_code == 201


FOLDERS = ["chat_sessions", "chat_sessions/.claims", ".mochi/turns", ".mochi", "attachments"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_in_the_place_of_a_folder_is_told_in_words(start, folder):
    server = start()
    chat = server.chat()
    session_id = chat.new_session()
    chat.say(session_id, "Hello")
    upload = {"content": b"words", "headers": {"Content-Type": "text/plain"}}
    assert chat.http.post("/attachments", **upload).status_code == 201
    place = server.data_dir / folder
    aside = server.data_dir / "aside"
    place.rename(aside)
    place.write_text("not a folder")

    answers = [
        chat.http.get("/health/ready"),
        chat.http.get("/sessions"),
        chat.http.get(f"/sessions/{session_id}"),
        chat.http.post("/sessions", json={"model": MODEL}),
        chat.http.post(f"/chat/{session_id}", json={"message": "x"}),
        chat.http.post(f"/chat/{session_id}/stream", json={"message": "x"}),
        chat.http.patch(f"/sessions/{session_id}", json={"title": "x"}),
        chat.http.delete(f"/sessions/{session_id}"),
        chat.http.post("/attachments", **upload),
        chat.http.get("/search", params={"q": "hello"}),
        httpx.post(f"{server.url}/v1/responses", json={"model": MODEL, "input": "x"}),
    ]
    failed = [answer for answer in answers if answer.status_code >= 500]
    assert failed
    assert (answers[0] in failed) == (folder in {"chat_sessions", ".mochi", "attachments"})
    for answer in failed:
        error = answer.json()["error"]
        code = error.get("mochi_code") or error["code"]
        assert (answer.status_code, code) == (503, "STORAGE_UNAVAILABLE")
    log = server.log.read_text()
    assert "Traceback" not in log
    assert str(place) in log

    place.unlink()
    aside.rename(place)
    assert chat.http.get("/health/ready").status_code == 200
    if folder.startswith("chat_sessions"):  # it was not deleted
        assert [event.name for event in chat.say(session_id, "Hello")][-1] == "done"
