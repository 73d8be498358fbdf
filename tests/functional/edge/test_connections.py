"""Several requests on one connection, around a stream whose chunks are written as they come."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pytest

from tests.functional.conftest import block

pytestmark = pytest.mark.conformance


@contextmanager
def connected(server) -> Iterator[tuple[socket.socket, BinaryIO]]:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=20) as sock,
        sock.makefile("rb") as file,
    ):
        yield sock, file


def request(method: str, path: str, body: object = None, *headers: str, version="1.1") -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} /api/v1{path} HTTP/{version}", "Host: localhost", *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return "\r\n".join([*lines, "", ""]).encode() + data


def answer(file: BinaryIO) -> tuple[int, dict[str, str], bytes]:
    """Read one answer, in whichever way it is framed."""
    status = int(file.readline().split()[1])
    headers = {}
    while line := file.readline().strip():
        name, _, value = line.decode().partition(": ")
        assert name not in headers, "sent twice"
        headers[name] = value
    if "content-length" in headers:
        return status, headers, file.read(int(headers["content-length"]))
    body = b""
    while headers.get("transfer-encoding") == "chunked" and (size := int(file.readline(), 16)):
        body += file.read(size)
        assert file.read(2) == b"\r\n"
    if "transfer-encoding" in headers:
        assert file.readline() == b"\r\n"
    return status, headers, body


@pytest.fixture
def stream(chat) -> bytes:
    """A request for a stream of some words."""
    message = block(*["word " * 5] * 3, words_per_second=100)
    return request("POST", f"/chat/{chat.new_session()}/stream", {"message": message})


def test_a_connection_goes_on_after_a_stream(server, stream):
    with connected(server) as (sock, file):
        for _ in range(2):
            sock.sendall(stream)
            status, headers, body = answer(file)
            assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            assert body.startswith(b"retry: ")
            assert body.count(b"event: turn_started\n") == body.count(b"event: done\n") == 1
            assert "x-content-type-options" in headers
            sock.sendall(request("GET", "/health"))
            assert answer(file)[0] == 200


def test_what_is_pipelined_behind_a_stream_waits_for_its_end(server, stream):
    with connected(server) as (sock, file):
        sock.sendall(stream + request("GET", "/nowhere") + request("GET", "/health"))
        assert b"event: done\n" in answer(file)[2]
        assert [answer(file)[0] for _ in range(2)] == [404, 200]


def test_who_wants_no_further_request_is_hung_up_on(server, stream):
    with connected(server) as (sock, file):
        sock.sendall(stream.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        _, headers, body = answer(file)
        assert headers["connection"] == "close"
        assert b"event: done\n" in body
        assert file.read() == b""


def test_a_refusal_a_stream_and_an_error_have_one_head_each(server, chat, stream):
    foreign = stream.replace(b"\r\n", b"\r\nOrigin: https://evil.example\r\n", 1)
    own = stream.replace(b"\r\n", b"\r\nOrigin: http://localhost\r\n", 1)
    missing = request("POST", "/chat/0000000000/stream", {"message": "hello"})
    with connected(server) as (sock, file):
        sock.sendall(missing + own)
        status, headers, body = answer(file)
        assert (status, json.loads(body)["error"]["code"]) == (404, "SESSION_NOT_FOUND")
        status, headers, body = answer(file)
        assert (status, headers["access-control-allow-origin"]) == (200, "http://localhost")
        sock.sendall(foreign)
        status, headers, body = answer(file)
        assert (status, json.loads(body)["error"]["code"]) == (403, "FORBIDDEN")
        assert "access-control-allow-origin" not in headers


def test_a_head_request_for_a_stream_gets_no_body(server, chat, script):
    session_id = chat.new_session()
    chat.say(session_id, script("Good morning!"))
    with connected(server) as (sock, file):
        sock.sendall(request("HEAD", f"/chat/{session_id}/stream"))
        assert file.readline().split()[1] == b"200"
        while file.readline().strip():
            pass
        sock.sendall(request("GET", "/health"))
        assert file.readline() == b"HTTP/1.1 200 OK\r\n"


def test_a_client_that_leaves_with_a_request_pipelined_ends_its_turn_and_no_more(server, chat):
    session_id = chat.new_session()
    message = block(*["word " * 50] * 3, words_per_second=30)
    with connected(server) as (sock, file):
        chat_request = request("POST", f"/chat/{session_id}/stream", {"message": message})
        sock.sendall(chat_request + request("GET", "/nowhere"))
        while file.readline() != b"event: content_delta\n":
            pass
    deadline = time.monotonic() + 60
    while len(chat.messages(session_id)) < 2:
        assert time.monotonic() < deadline, "the turn goes on"
        time.sleep(0.02)
    assert chat.messages(session_id)[-1]["cancelled"]
    assert '"level": "error"' not in server.log.read_text()
