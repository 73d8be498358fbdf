"""Clients that do not read are dropped, and cost neither memory nor their turn's rule."""

import json
import socket
import time
from urllib.parse import urlsplit


def open_stream(server, session_id, body):
    """Ask for a stream and read nothing of it."""
    address = urlsplit(server.url)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((address.hostname, address.port))
    data = json.dumps(body).encode()
    client.sendall(
        f"POST /api/v1/chat/{session_id}/stream HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        + data
    )
    return client


def wait_for(condition, seconds, message):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, message


def active_turn(chat, session_id):
    return chat.http.get(f"/sessions/{session_id}/status").json()["active_turn"]


def connections(server):
    port = urlsplit(server.url).port
    return [
        connection
        for process in server.web_processes
        for connection in process.net_connections("tcp")
        if connection.laddr.port == port and connection.status != "LISTEN"
    ]


def test_a_client_that_never_reads_is_dropped_with_its_socket(start, script):
    server = start(MOCHI_WRITE_TIMEOUT_SECONDS="1", MOCHI_DYNAMIC_CONTEXT_WINDOW_ENABLED="false")
    chat = server.chat(headers={"Connection": "close"})
    session_id = chat.new_session()
    [process] = server.web_processes
    before = process.memory_info().rss
    endless = script({"text_message": {"length": 90_000}}, stall_after=17_000, stall_seconds=60)
    with open_stream(server, session_id, {"message": endless}):
        wait_for(lambda: active_turn(chat, session_id), 60, "the turn did not start")
        wait_for(lambda: not active_turn(chat, session_id), 60, "the turn still runs")
        assert chat.messages(session_id)[-1]["cancelled"] is True
        assert process.memory_info().rss - before < 64 * 1024 * 1024
        wait_for(lambda: not connections(server), 60, "the socket lingers")


def test_a_slow_client_that_reads_now_and_then_is_kept(start, script):
    server = start(MOCHI_WRITE_TIMEOUT_SECONDS="2", MOCHI_DYNAMIC_CONTEXT_WINDOW_ENABLED="false")
    chat = server.chat()
    session_id = chat.new_session()
    message = script({"text_message": {"length": 100_000}})
    with open_stream(server, session_id, {"message": message}) as client:
        received = b""
        begin = time.monotonic()
        while b"event: done" not in received[-2000:]:
            piece = client.recv(65536 if time.monotonic() - begin > 5 else 2048)
            assert piece, "the server hung up"
            received += piece
    assert received.count(b"event: done") == 1
