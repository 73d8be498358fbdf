"""What one worker saved is found by the other one, with the index and without it."""

import sqlite3
import time
from contextlib import closing

import pytest


@pytest.fixture(scope="module")
def server(start_once):
    """Return a server of two web processes."""
    return start_once("--workers", "2")


@pytest.fixture
def workers(server):
    """Return a client of each of the two."""
    return [server.chat_with(worker) for worker in server.web_processes]


def search(client, text, **wanted):
    answer = client.http.get("/search", params={"q": text, "role": "user", **wanted})
    assert answer.status_code == 200, answer.text
    return answer.json()


def found(client, text):
    return [(one["session_id"], one["message_index"]) for one in search(client, text)["results"]]


def wait_until_indexed(client, server):
    """Wait until the index knows every session as it is; searching has it brought up to date."""
    deadline = time.monotonic() + 60
    while search(client, "anything")["index"] != "ready" or indexed(server) != listed(client):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def listed(client):
    sessions = client.http.get("/sessions").json()["sessions"]
    return {session["session_id"]: session["updated_at"] for session in sessions}


def indexed(server):
    """Return the sessions of the index by their times; None while there is none to read."""
    path = server.data_dir / ".mochi" / "search.sqlite3"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return dict(connection.execute("SELECT id, updated_at FROM sessions"))
    except sqlite3.Error:
        return None


def test_what_was_said_is_found_at_once_by_every_worker(workers, server, script):
    one, other = workers
    session_id = one.new_session()
    one.say(session_id, f"Wo liegt Köln? {script('Am Rhein.')}")
    assert found(other, "koln") == found(one, "koln") == [(session_id, 0)]
    [answer] = search(other, '"am rhein"', role="assistant")["results"]
    assert answer["session_id"] == session_id
    for client in workers:
        wait_until_indexed(client, server)
        assert found(client, "koln") == [(session_id, 0)]
    other.say(session_id, f"Und Düren? {script('Auch.')}")
    assert found(one, "duren") == found(other, "duren") == [(session_id, 2)]
    one.http.delete(f"/sessions/{session_id}").raise_for_status()
    assert found(one, "koln") == found(other, "koln") == []


def test_a_deleted_index_costs_a_rebuild_and_nothing_else(workers, server, script):
    one, other = workers
    session_id = one.new_session()
    one.say(session_id, f"Wie tief ist der Bodensee? {script('Tief.')}")
    wait_until_indexed(other, server)
    index = server.data_dir / ".mochi" / "search.sqlite3"
    index.unlink()
    assert found(one, "bodensee") == found(other, "bodensee") == [(session_id, 0)]
    wait_until_indexed(one, server)
    assert found(one, "bodensee") == found(other, "bodensee") == [(session_id, 0)]
    index.write_bytes(b"no index")
    assert found(one, "bodensee") == found(other, "bodensee") == [(session_id, 0)]
    wait_until_indexed(other, server)
    assert found(one, "bodensee") == found(other, "bodensee") == [(session_id, 0)]
