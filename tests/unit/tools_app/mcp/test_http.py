"""Servers that are reached over HTTP."""

import asyncio
import gzip
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.surrogates import mend_escapes
from tools_app.mcp.http import _MendedStream

PROGRAM = Path(__file__).parent / "programs" / "sdk_server.py"
SECRET = "hush-hush-hush"

Answer = Callable[[str, dict, dict[str, str]], Awaitable[bytes] | bytes]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class HttpServer:
    """A server that is made with the SDK, in a process of its own."""

    def __init__(self):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, str(self.port)], stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 30
        while not listens(self.port):
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server():
    server = HttpServer()
    yield server
    server.stop()


async def test_a_server_is_listed_and_called(lab, server):
    await lab.configure(srv={"url": server.url})

    assert "srv__add" in (await lab.listed("srv")).tools
    assert (await lab.call("srv__add", a=1, b=2)).result == "3"
    assert (await lab.server("srv")).transport == "http"


async def test_progress_is_told(lab, server):
    await lab.configure(srv={"url": server.url})
    await lab.listed("srv")

    assert (await lab.call("srv__count", steps=2, pause=0.15)).success

    assert [report.progress for report in lab.reports] == [1.0, 2.0]


async def test_the_tool_sees_that_its_call_was_cancelled(lab, server, tmp_path):
    await lab.configure(srv={"url": server.url})
    await lab.listed("srv")
    mark = tmp_path / "mark"
    calling = asyncio.create_task(lab.call("srv__wait", path=str(mark)))
    await lab.eventually(lambda: says(mark, "started"))

    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await calling
    await lab.eventually(lambda: says(mark, "cancelled"))
    assert (await lab.call("srv__add", a=1)).success


async def test_a_tool_that_comes_later_is_listed(lab, server):
    lab.start(between_listings=0.1)
    await lab.configure(srv={"url": server.url})
    await lab.listed("srv")

    await lab.call("srv__learn", name="plus")

    await lab.eventually(lambda: has_tool(lab, "srv__plus"))


async def test_a_server_that_goes_and_comes_again_is_found_again(lab):
    server = await asyncio.to_thread(HttpServer)
    try:
        lab.start(longest_pause=0.1)
        await lab.configure(srv={"url": server.url})
        assert (await lab.call("srv__add", a=1)).success

        await asyncio.to_thread(server.stop)
        assert not (await lab.call("srv__add", a=1)).success
        await lab.eventually(lambda: lab.tools._servers["srv"].state in ("backing_off", "failed"))
        assert (await lab.call("srv__add", a=1)).error_code == "SERVICE_UNAVAILABLE"

        await asyncio.to_thread(server.start)
        await lab.eventually(lambda: adds(lab))
    finally:
        await asyncio.to_thread(server.stop)


async def test_nobody_there(lab):
    await lab.configure(srv={"url": f"http://127.0.0.1:{free_port()}/mcp?key={SECRET}"})

    assert not (await lab.listed("srv")).tools

    error = (await lab.server("srv")).error or ""
    assert "ConnectError" in error
    assert SECRET not in error


async def test_headers_are_sent_and_never_shown(lab, caplog, monkeypatch):
    caplog.set_level("DEBUG", logger="tools_app")
    monkeypatch.setenv("KEY", SECRET)
    seen = []

    def answer(method, message, headers):
        seen.append(headers)
        return reply(401, f"who are you? not {SECRET}".encode())

    async with listening(answer) as url:
        await lab.configure(srv={"url": url, "headers": {"Authorization": "Bearer ${KEY}"}})
        await lab.listed("srv")

    assert {headers["authorization"] for headers in seen} == {f"Bearer {SECRET}"}
    error = (await lab.server("srv")).error or ""
    assert error
    assert SECRET not in error + caplog.text


async def test_redirects_are_not_followed(lab):
    asked = []

    def answer(method, message, headers):
        asked.append(headers[":path"])
        return reply(307, b"", {"Location": "/elsewhere"})

    async with listening(answer) as url:
        await lab.configure(srv={"url": url})
        await lab.listed("srv")

    assert set(asked) == {"/mcp"}
    assert "Redirect" in ((await lab.server("srv")).error or "")


@pytest.mark.parametrize(
    "answer",
    [
        lambda *_: reply(200, b"x" * 9_000_000),
        lambda *_: reply(200, b"{not json"),
        lambda *_: reply(200, b"<html>", {"Content-Type": "text/html"}),
        lambda *_: reply(200, gzip.compress(b"{}"), {"Content-Encoding": "gzip"}),
        lambda *_: reply(500, b"boom"),
        lambda *_: reply(202, b""),
        lambda *_: b"no http at all\r\n\r\n",
        lambda *_: b"",
    ],
    ids=["endless", "not-json", "html", "packed", "500", "202", "not-http", "hangs-up"],
)
async def test_what_is_no_mcp_server_is_down(lab, answer):
    async with listening(answer) as url:
        await lab.configure(srv={"url": url}, ok=lab.raw("plain"))

        assert not (await lab.listed("srv")).tools
        assert (await lab.listed("ok")).tools
        assert (await lab.server("srv")).error


async def test_a_server_that_says_nothing_is_given_up(lab):
    async def answer(*_):
        await over.wait()
        return b""

    over = asyncio.Event()

    lab.start(start=0.3)
    async with listening(answer) as url:
        await lab.configure(srv={"url": url})

        assert not (await lab.listed("srv")).tools
        assert (await lab.server("srv")).error == "It did not answer in time."
        over.set()


async def test_an_answer_beyond_all_bounds_costs_its_call(lab):
    async with listening(
        older_server(lambda: {"content": [{"type": "text", "text": "x" * 9_000_000}]})
    ) as url:
        await lab.configure(srv={"url": url})
        await lab.listed("srv")

        assert (await lab.call("srv__run")).error_code == "TOOL_EXECUTION_FAILED"
        assert (await lab.listed("srv")).tools


async def test_half_a_character_in_a_result_is_replaced(lab):
    async with listening(
        older_server(lambda: {"content": [{"type": "text", "text": "a\ud83d b\ud83d\ude00"}]})
    ) as url:
        await lab.configure(srv={"url": url})
        await lab.listed("srv")

        assert (await lab.call("srv__run")).result == "a\ufffd b😀"


async def test_a_session_that_the_server_forgot_is_made_anew(lab):
    forgotten = []

    def call():
        if not forgotten:
            forgotten.append(True)
            return None
        return {"content": [{"type": "text", "text": "ran"}]}

    async with listening(older_server(call)) as url:
        await lab.configure(srv={"url": url})
        await lab.listed("srv")

        assert (await lab.call("srv__run")).error_code == "TOOL_EXECUTION_FAILED"
        await lab.eventually(lambda: runs(lab))


def older_server(call):
    """Answer as a server of 2025 does, in plain JSON."""

    def answer(method, message, headers):
        if method != "POST":
            return reply(405 if method == "GET" else 200, b"")
        if "id" not in message:
            return reply(202, b"")
        more = {}
        if message["method"] == "initialize":
            more = {"mcp-session-id": "s"}
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"},
            }
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": "run", "inputSchema": {"type": "object"}}]}
        elif message["method"] == "tools/call":
            result = call()
            if result is None:
                return reply(404, b"")
        else:
            return reply(400, b"")
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return reply(200, body.encode(), more)

    return answer


def reply(status, body, headers=None):
    lines = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Whatever\r\n{head}Connection: close\r\n\r\n".encode() + body


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[str]:
    """Answer each request with bytes, and hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *rest = head.strip().split("\r\n")
            method, path, _ = first.split()
            headers = {
                name.lower(): value for name, value in (line.split(": ", 1) for line in rest)
            }
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            answered = answer(method, json.loads(body or b"{}"), {**headers, ":path": path})
            writer.write(answered if isinstance(answered, bytes) else await answered)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()


async def adds(lab):
    return (await lab.call("srv__add", a=1)).success


async def runs(lab):
    return (await lab.call("srv__run")).success


async def has_tool(lab, name):
    return name in (await lab.listed("srv")).tools


async def says(path, text):
    return await asyncio.to_thread(lambda: path.exists() and path.read_text() == text)


class Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces):
        self.pieces = pieces

    async def __aiter__(self):
        for piece in self.pieces:
            yield piece


@given(st.text(st.sampled_from('a\ud83d\ude00\\"u'), max_size=12), st.lists(st.integers(0, 90)))
def test_halves_are_mended_wherever_the_body_is_cut(text, cuts):
    body = json.dumps({"text": text}).encode()
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[start:end] for start, end in pairwise(places)]

    async def read():
        return b"".join([piece async for piece in _MendedStream(Pieces(pieces))])

    assert asyncio.run(read()) == mend_escapes(body)
