"""A server that is told to stop saves what there is, says goodbye, and stops in time."""

import json
import re
import signal
import socket
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.functional.processes import MANAGE

pytestmark = pytest.mark.slow

GRACE = 2.0
FOR_EVER = "600"  # longer than any of these tests may take
UVICORN = (
    "-c",
    textwrap.dedent("""
        import uvicorn

        class Server(uvicorn.Server):
            async def startup(self, sockets=None):
                await super().startup(sockets=sockets)
                port = self.servers[0].sockets[0].getsockname()[1]
                print(f"mochi-server listening on http://127.0.0.1:{port}", flush=True)

        Server(uvicorn.Config("mochi_project.asgi:application", port=0)).run()
    """),
)
ENDLESS = """
import pathlib, time

__all__ = ["whatever"]
pathlib.Path({begun!r}).touch()
time.sleep(600)

def whatever() -> str:
    \"\"\"Do nothing.\"\"\"
    return ""
"""
RUNSERVER = (MANAGE, "runserver", "--noreload", "127.0.0.1:0")
WAYS = {
    "one process": {},
    "two workers": {"MOCHI_WORKERS": "2"},
    "four workers": {"MOCHI_WORKERS": "4"},
    "uvicorn": {"program": UVICORN},
    "runserver": {"program": RUNSERVER},
}


def ways(*names):
    """Run a test with servers that were started in these ways."""
    return pytest.mark.parametrize("way", [WAYS[name] for name in names], ids=names)


class Stopping:
    """Sends a signal, and has the process waited for, which must end long before its models do."""

    def __init__(self, server, number=signal.SIGTERM):
        self.begin = time.monotonic()
        self._server = server
        server.process.send_signal(number)

    def wait(self):
        self._server.process.wait(timeout=60)


def open_stream(streams, server, script, *, workers=1):
    """Begin a turn that never ends by itself; return its session and the rest of its events."""
    chat = server.chat()
    session_id = chat.new_session()
    message = script(["Half ", "an ", "answer"], stall_after=2, stall_seconds=600)
    events = streams.enter_context(chat.stream(session_id, message=message))
    while next(events).data.get("content") != " an":
        pass
    return session_id, events


def until_refused(server, session_id):
    """Ask for a turn until the server, which was told to stop, refuses it; return that answer."""
    while True:
        answer = server.chat().http.post(f"/chat/{session_id}/stream", json={"message": "x"})
        if answer.status_code == 503:
            return answer


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("one process", signal.SIGTERM),
        ("one process", signal.SIGINT),
        ("four workers", signal.SIGTERM),
        ("uvicorn", signal.SIGTERM),
        ("runserver", signal.SIGINT),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_live_turns_get_a_grace_time_and_then_a_proper_end(start, script, name, number):
    way = WAYS[name]
    server = start(MOCHI_SHUTDOWN_GRACE_SECONDS=str(GRACE), **way)
    bystander = server.chat()
    idle = bystander.new_session()
    with ExitStack() as streams:
        turns = [open_stream(streams, server, script) for _ in range(3)]
        stopping = Stopping(server, number)
        refused = until_refused(server, idle)
        assert refused.json()["error"]["code"] == "SHUTTING_DOWN"
        assert refused.json()["error"]["details"]["retryable"] is True
        assert int(refused.headers["retry-after"]) > 0
        for _, events in turns:
            *_, error, done = events
            assert (error.name, error.data["code"]) == ("error", "SHUTTING_DOWN")
            assert error.data["details"]["retryable"] is True
            assert done.name == "done"
        assert time.monotonic() - stopping.begin >= GRACE
    stopping.wait()
    for session_id, _ in turns:
        partial = server.session_file(session_id)["messages"][-1]
        assert (partial["content"], partial["interrupted"]) == ("Half an", True)
    assert server.process.returncode in {0, -number}


@pytest.mark.parametrize(
    "headers", ["", "GET /api/v1/health"], ids=["no byte", "half of its headers"]
)
@ways("one process")
def test_a_client_that_connects_while_the_server_stops_is_told_to_come_back(start, headers, way):
    server = start(**way)
    address = urlsplit(server.url)
    where = (address.hostname, address.port)
    with socket.create_connection(where, 60) as idle, idle.makefile("rb") as answers:
        idle.sendall(b"HEAD /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while answers.readline().strip():
            pass
        with socket.create_connection(where, 60) as new, new.makefile("rb") as refusal:
            new.sendall(headers.encode())
            stopping = Stopping(server)
            assert answers.read() == b""  # the one that waited for its next request is closed
            rest = "GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
            new.sendall(rest.removeprefix(headers).encode())
            head, _, body = refusal.read().lower().partition(b"\r\n\r\n")
    assert head.startswith(b"http/1.1 503 ")
    assert {b"connection: close", b"retry-after: 5"} <= set(head.split(b"\r\n"))
    assert json.loads(body)["error"]["code"] == "shutting_down"
    stopping.wait()


@ways("one process", "two workers", "uvicorn")
def test_a_turn_whose_tools_never_load_holds_nothing_up(start, script, eventually, way):
    server = start(MOCHI_SHUTDOWN_GRACE_SECONDS=str(GRACE), **way)
    begun = server.data_dir / "begun"
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "endless.py").write_text(ENDLESS.format(begun=str(begun)))
    waiting = server.chat()
    session_id = waiting.new_session(tool_settings={"tools": ["whatever"]})
    with ExitStack() as streams, ThreadPoolExecutor() as threads:
        turns = [open_stream(streams, server, script) for _ in range(3)]
        path = f"/chat/{session_id}/stream"
        starting = threads.submit(waiting.http.post, path, json={"message": "x"})
        eventually(begun.exists)
        stopping = Stopping(server)
        ends = [[event.name for event in events] for _, events in turns]
        took = time.monotonic() - stopping.begin
        refused = starting.result()
    stopping.wait()
    assert ends == [["error", "done"]] * 3
    assert took < GRACE + 20  # a host that begins may take 30 seconds
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "SHUTTING_DOWN")
    assert server.process.returncode in {0, -signal.SIGTERM}


@ways("one process", "uvicorn")
def test_a_turn_that_ends_within_the_grace_time_ends_well_and_nobody_waits_longer(
    start, script, way
):
    server = start(MOCHI_SHUTDOWN_GRACE_SECONDS=FOR_EVER, **way)
    chat = server.chat()
    session_id = chat.new_session()
    message = script(["one ", "two ", "three ", "four"], words_per_second=8)
    with chat.stream(session_id, message=message) as events:
        next(events)
        stopping = Stopping(server)
        *_, complete, done = events
    assert (complete.name, complete.data["content"]) == ("message_complete", "one two three four")
    assert done.name == "done"
    stopping.wait()
    assert server.session_file(session_id)["messages"][-1]["content"] == "one two three four"


@ways("one process", "four workers", "uvicorn", "runserver")
def test_a_client_that_does_not_read_holds_nothing_up(start, upstream, eventually, way):
    def flood(answer):
        for _ in range(800):
            answer.say("x" * 10_000)
        answer.wait_until_closed()

    upstream.behave = flood
    server = start(MOCHI_SHUTDOWN_GRACE_SECONDS=str(GRACE), MOCHI_OLLAMA_HOST=upstream.url, **way)
    chat = server.chat()
    session_id = chat.new_session()
    address = urlsplit(server.url)
    with socket.socket() as reluctant:
        reluctant.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reluctant.connect((address.hostname, address.port))
        body = b'{"message": "x", "detached": true}'
        reluctant.sendall(
            b"POST /api/v1/chat/%b/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (session_id.encode(), len(body), body)
        )
        journals = server.data_dir / ".mochi" / "turns" / session_id
        # The model has said everything, and the client has read none of it.
        eventually(lambda: sum(file.stat().st_size for file in journals.glob("*")) > 8_000_000, 30)
        Stopping(server).wait()
    partial = server.session_file(session_id)["messages"][-1]
    assert (len(partial["content"]), partial["interrupted"]) == (8_000_000, True)


@ways("one process", "two workers", "uvicorn")
def test_a_second_signal_cuts_the_grace_time_short(start, script, way):
    server = start(MOCHI_SHUTDOWN_GRACE_SECONDS=FOR_EVER, **way)
    with ExitStack() as streams:
        session_id, events = open_stream(streams, server, script)
        stopping = Stopping(server)
        until_refused(server, session_id)  # the first one was obeyed
        server.process.send_signal(signal.SIGTERM)
        assert [event.name for event in events] == ["error", "done"]
    stopping.wait()
    assert server.session_file(session_id)["messages"][-1]["interrupted"] is True


def pending_signals(process):
    """Return the signals that a process has got and not taken yet."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    mask = int(re.search(r"^ShdPnd:\s*(\w+)$", status, re.MULTILINE)[1], 16)
    return {number for number in signal.Signals if mask >> (number - 1) & 1}


def has_stopped(process):
    """Return whether all threads stand still; one that does not would still take a signal."""
    states = [Path(f"/proc/{process.pid}/task/{thread.id}/stat") for thread in process.threads()]
    return all(state.read_text().rpartition(")")[2].split()[0] == "T" for state in states)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
def test_a_web_process_that_has_not_obeyed_the_first_signal_obeys_the_second(
    start, script, eventually
):
    server = start(MOCHI_SHUTDOWN_GRACE_SECONDS=FOR_EVER, **WAYS["two workers"])
    with ExitStack() as streams:
        session_id, events = open_stream(streams, server, script)
        frozen = server.web_processes
        for process in frozen:
            process.suspend()
        eventually(lambda: all(has_stopped(each) for each in frozen), 30)
        stopping = Stopping(server)
        eventually(lambda: all(signal.SIGTERM in pending_signals(each) for each in frozen), 30)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: all(len(pending_signals(each)) == 2 for each in frozen), 30)
        for process in frozen:
            process.resume()
        assert [event.name for event in events] == ["error", "done"]
    stopping.wait()
    assert server.session_file(session_id)["messages"][-1]["interrupted"] is True


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
def test_a_web_process_that_had_to_be_killed_is_told_of_by_the_exit_code(start, eventually):
    server = start(MOCHI_SHUTDOWN_GRACE_SECONDS=FOR_EVER, **WAYS["two workers"])
    frozen, _ = server.web_processes
    frozen.suspend()
    eventually(lambda: has_stopped(frozen), 30)
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: signal.SIGTERM in pending_signals(frozen), 30)
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: len(pending_signals(frozen)) == 2, 30)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 1
    (line,) = re.findall("killing web workers that did not stop: .*", server.log.read_text())
    assert str(frozen.pid) in line


def test_a_stopped_server_leaves_nothing_to_seal(start, script):
    server = start(MOCHI_SHUTDOWN_GRACE_SECONDS="0")
    with ExitStack() as streams:
        session_id, events = open_stream(streams, server, script)
        server.stop()
        last_id = list(events)[-1].id
    assert list((server.data_dir / "chat_sessions" / ".claims").glob("*.*")) == []
    log = server.log.read_text()
    assert "sealed" not in log
    assert "Traceback" not in log
    chat = start().chat()
    assert chat.reattach(session_id, last_id) is None
    assert [event.name for event in chat.reattach(session_id)][-2:] == ["error", "done"]
