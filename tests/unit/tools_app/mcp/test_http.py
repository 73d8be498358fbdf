"""Servers that are reached over HTTP."""

import asyncio
import gzip
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.tools_app.mcp.http_servers import listening, older_server, reply

PROGRAM = Path(__file__).parent / "programs" / "sdk_server.py"
SECRET = "hush-hush-hush"


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


async def adds(lab):
    return (await lab.call("srv__add", a=1)).success


async def runs(lab):
    return (await lab.call("srv__run")).success


async def has_tool(lab, name):
    return name in (await lab.listed("srv")).tools


async def says(path, text):
    return await asyncio.to_thread(lambda: path.exists() and path.read_text() == text)
