"""Offers of an upgrade, which are ignored, and bodies that were announced and do not arrive."""

import json
import socket

import pytest

from tests.functional.edge.test_connections import answer, connected, request

pytestmark = pytest.mark.conformance

H2C = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
)


@pytest.fixture
def session(chat) -> str:
    """A session with one question and its answer."""
    session_id = chat.new_session()
    chat.say(session_id, "first question")
    return session_id


def said(chat, session_id: str) -> list[str]:
    return [entry["content"] for entry in chat.messages(session_id) if entry["role"] == "user"]


def chunked(plain: bytes) -> bytes:
    """Return a request with its body sent in chunks instead of announced by its length."""
    head, _, body = plain.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
    halves = (body[:3], body[3:])
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(half), half) for half in halves)
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", pieces]) + b"0\r\n\r\n"


@pytest.mark.parametrize("framed", [bytes, chunked], ids=["length", "chunks"])
@pytest.mark.parametrize("offer", [H2C, ("Connection: upgrade", "Upgrade: websocket")])
def test_a_message_arrives_whatever_upgrade_its_client_offers(server, chat, session, framed, offer):
    before = chat.messages(session)
    with connected(server) as (sock, file):
        for message in ("second question", "third question"):
            asked = request("POST", f"/chat/{session}", {"message": message}, *offer)
            sock.sendall(framed(asked))
            status, headers, body = answer(file)
            assert status == 200, body
            assert "upgrade" not in headers
    assert said(chat, session) == ["first question", "second question", "third question"]
    assert chat.messages(session)[:2] == before


def test_requests_pipelined_around_an_upgrade_are_all_answered(server, chat, session):
    plain = request("GET", "/health")
    offered = request("POST", f"/chat/{session}", {"message": "second question"}, *H2C)
    reading = request("GET", f"/sessions/{session}/messages", None, *H2C)
    with connected(server) as (sock, file):
        sock.sendall(plain + offered + reading + plain)
        answers = [answer(file) for _ in range(4)]
    assert [status for status, _, _ in answers] == [200] * 4
    assert len(json.loads(answers[2][2])["messages"]) == 4
    assert said(chat, session) == ["first question", "second question"]


def test_an_upgrade_that_arrives_byte_by_byte_is_ignored_too(server, chat, session):
    offered = request("POST", f"/chat/{session}", {"message": "second question"}, *H2C)
    with connected(server) as (sock, file):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(len(offered)):
            sock.sendall(offered[start : start + 1])
        assert answer(file)[0] == 200
    assert said(chat, session) == ["first question", "second question"]


def test_a_tunnel_is_refused_and_what_follows_is_no_request(server):
    with connected(server) as (sock, file):
        sock.sendall(
            b"CONNECT /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
            + request("GET", "/health")
        )
        status, headers, body = answer(file)
        assert (status, json.loads(body)["error"]["code"]) == (400, "BAD_REQUEST")
        assert headers["connection"] == "close"
        assert file.read() == b""


@pytest.mark.parametrize("kept", [0, 10], ids=["nothing", "a part"])
@pytest.mark.parametrize("framed", [bytes, chunked], ids=["length", "chunks"])
def test_a_body_that_does_not_arrive_is_told_and_changes_nothing(
    server, chat, session, framed, kept
):
    before = chat.messages(session)
    head, _, body = framed(
        request("POST", f"/chat/{session}", {"message": "second question"})
    ).partition(b"\r\n\r\n")
    with connected(server) as (sock, file):
        sock.sendall(head + b"\r\n\r\n" + body[:kept])
        sock.shutdown(socket.SHUT_WR)
        status, headers, told = answer(file)
        assert (status, json.loads(told)["error"]["code"]) == (400, "BAD_REQUEST")
        assert headers["connection"] == "close"
        assert file.read() == b""
    assert chat.messages(session) == before


def test_an_empty_body_in_chunks_is_no_wish_to_regenerate(server, chat, session):
    before = chat.messages(session)
    head = request("POST", f"/chat/{session}", None, "Content-Type: application/json")
    with connected(server) as (sock, file):
        sock.sendall(head[:-2] + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        status, _, body = answer(file)
    assert (status, json.loads(body)["error"]["code"]) == (400, "BAD_REQUEST")
    assert chat.messages(session) == before


@pytest.mark.parametrize("body", [{}, {"message": None}, None], ids=str)
def test_who_says_nothing_or_asks_for_it_gets_another_answer(server, chat, session, body):
    before = chat.messages(session)
    with connected(server) as (sock, file):
        sock.sendall(request("POST", f"/chat/{session}", body, *H2C))
        assert answer(file)[0] == 200
    assert said(chat, session) == ["first question"]
    assert chat.messages(session)[-1]["message_id"] != before[-1]["message_id"]
