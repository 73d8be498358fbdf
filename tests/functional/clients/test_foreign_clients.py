"""Clients that nobody here wrote, over HTTP as they speak it by themselves."""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.functional.absent import program

pytestmark = [pytest.mark.interop, pytest.mark.conformance]

PROGRAMS = Path(__file__).parent
# What each of the programs prints: a status, or how many times a stream ended.
TOLD = """\
length 200
chunks 200
stream 1
wrong 415
empty 409
messages 200
"""


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    return subprocess.run(
        command, env=kept | variables, capture_output=True, text=True, timeout=100, check=False
    )


def said(chat: Any, session_id: str) -> list[str]:
    return [entry["content"] for entry in chat.messages(session_id) if entry["role"] == "user"]


@pytest.mark.parametrize(
    ("needed", "command"),
    [
        ("javac", ("java", "Chat.java")),  # a JRE alone can't run a file of source
        ("node", ("node", "chat.mjs")),
        ("go", ("go", "run", "chat.go")),
    ],
    ids=["java", "node", "go"],
)
def test_a_client_has_its_messages_answered_and_none_lost(
    server: Any, chat: Any, tmp_path: Path, needed: str, command: tuple[str, ...]
) -> None:
    program(needed)
    session_id = chat.new_session()
    ended = run(
        *command[:-1],
        str(PROGRAMS / command[-1]),
        f"{server.url}/api/v1",
        session_id,
        CGO_ENABLED="1" if shutil.which("gcc") else "0",
        GO111MODULE="off",
        GOCACHE=str(tmp_path / "cache"),
    )
    assert (ended.returncode, ended.stdout) == (0, TOLD), ended.stderr
    assert said(chat, session_id) == ["first", "second", "third"]
    assert len(chat.messages(session_id)) == 6


@pytest.mark.parametrize(
    ("version", "framing"),
    [
        ("--http1.0", "length"),
        ("--http1.1", "length"),
        ("--http1.1", "chunks"),
        ("--http2", "length"),
        ("--http2", "chunks"),
    ],
)
def test_curl_has_its_message_answered_whatever_version_it_offers(
    server: Any, chat: Any, version: str, framing: str
) -> None:
    session_id = chat.new_session()
    url = f"{server.url}/api/v1/chat/{session_id}"
    headers = ["-H", "Content-Type: application/json"]
    if framing == "chunks":
        headers += ["-H", "Transfer-Encoding: chunked"]
    for message in ("first", "second"):
        body = json.dumps({"message": message})
        ended = run(program("curl"), "-sS", "--fail", version, *headers, "-d", body, url)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["session_id"] == session_id
    assert said(chat, session_id) == ["first", "second"]


def test_curl_reads_a_stream_while_it_offers_an_upgrade(server: Any, chat: Any) -> None:
    url = f"{server.url}/api/v1/chat/{chat.new_session()}/stream"
    body = ("-H", "Content-Type: application/json", "-d", '{"message": "first"}')
    ended = run(program("curl"), "-sSN", "--http2", *body, url)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("event: done\n") == 1


def test_http2_with_prior_knowledge_is_refused_in_a_sentence(server: Any) -> None:
    health = f"{server.url}/api/v1/health"
    ended = run(program("curl"), "-sS", "--http2-prior-knowledge", health)
    assert ended.returncode != 0
    assert ended.stdout == ""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        with sock.makefile("rb") as file:
            received = file.read()
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"This server speaks HTTP/1.1." in received
