"""What one client can take of a server for all."""

import json
from contextlib import ExitStack

import pytest

from tests.functional.conftest import block
from tests.functional.edge.test_connections import connected, request

pytestmark = pytest.mark.conformance

LONG = block(*["word " * 20] * 20, words_per_second=20)


@pytest.fixture(scope="module")
def server(start_once):
    return start_once(
        MOCHI_MAX_TURNS_PER_CLIENT="1",
        MOCHI_TRUSTED_PROXIES="127.0.0.1",
        MOCHI_TEST_WORDS_PER_SECOND="20",
    )


def of(address: str) -> dict[str, str]:
    return {"x-forwarded-for": f"6.6.6.6, {address}"}


def test_a_client_beyond_its_turns_is_told_to_come_back_and_others_are_served(server):
    mine, theirs = server.chat(headers=of("203.0.113.7")), server.chat(headers=of("203.0.113.8"))
    session, other = mine.new_session(), mine.new_session()
    with mine.stream(session, message=LONG) as events:
        assert next(events).name == "turn_started"
        for path in (f"/chat/{other}", f"/chat/{other}/stream"):
            refused = mine.http.post(path, json={"message": "hello"})
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "5"
            error = refused.json()["error"]
            assert (error["code"], error["details"]["retryable"]) == ("TOO_MANY_TURNS", True)
        assert mine.messages(other) == []
        with theirs.stream(other, message=LONG) as others:
            assert next(others).name == "turn_started"
            assert theirs.cancel(other).status_code == 200
        assert mine.cancel(session).status_code == 200
    assert mine.http.post(f"/chat/{other}", json={"message": block("x")}).status_code == 200


@pytest.fixture
def large_session(server) -> str:
    """A session of 16 MiB."""
    session_id = server.chat(headers=of("203.0.113.9")).new_session()
    path = server.data_dir / "chat_sessions" / f"{session_id}.json"
    stored = json.loads(path.read_text())
    stored["messages"] = [
        {
            "role": "user",
            "content": "x" * 1_000_000,
            "message_id": f"{number:010x}",
            "timestamp": stored["metadata"]["created_at"],
        }
        for number in range(16)
    ]
    path.write_text(json.dumps(stored))
    return session_id


def test_clients_that_do_not_read_large_answers_keep_no_more_than_four_of_them(
    server, large_session
):
    path = f"/sessions/{large_session}/messages"
    with ExitStack() as stack:
        for number in range(4):
            sock, file = stack.enter_context(connected(server))
            sock.sendall(request("GET", path, None, f"X-Forwarded-For: 203.0.113.{number}"))
            assert file.readline() == b"HTTP/1.1 200 OK\r\n"
        client = server.chat(headers=of("203.0.113.9"))
        refused = client.http.get(path)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert refused.json()["error"]["code"] == "TOO_MANY_LARGE_ANSWERS"
        assert client.http.get("/sessions").status_code == 200
    assert len(client.messages(large_session)) == 16
