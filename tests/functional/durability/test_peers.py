"""Slow, silent and broken peers: each costs its own turn, in time, and nothing else."""

import socket
import struct
import threading
import time

import psutil
import pytest

from chat.remote import journal_follower
from chat.stream import heartbeat

SILENCE = 1.0
HUGE_LINE = 200 * 1024 * 1024
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def front(start_once, upstream):
    """Return a server in front of a model server of our own, whose silence it bears for 1 s."""
    return start_once(MOCHI_OLLAMA_HOST=upstream.url, MOCHI_UPSTREAM_TIMEOUT_SECONDS=str(SILENCE))


def speak_well(answer):
    answer.say("a whole", " answer")
    answer.finish()


def silence(answer):
    answer.say("Half", " an")
    answer.wait_until_closed()


def half_close(answer):
    answer.say("Half", " an")
    answer.socket.shutdown(socket.SHUT_WR)
    answer.wait_until_closed()


def reset_in_mid_line(answer):
    answer.say("Half", " an")
    answer.chunk(b'{"model":"m","message":{"role":"assi')
    time.sleep(0.05)  # or the reset overtakes what was sent
    answer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def end_without_done_line(answer):
    answer.say("Half", " an")
    answer.raw(b"0\r\n\r\n")


def end_in_mid_line(answer):
    answer.say("Half", " an")
    answer.chunk(b'{"model":"m","message":{"role":"assi')
    answer.raw(b"0\r\n\r\n")


def malformed_line(answer):
    answer.say("Half", " an")
    answer.chunk(b'{"model":"m","message":nonsense}\n')
    answer.wait_until_closed()


def line_of_another_kind(answer):
    answer.say("Half", " an")
    answer.chunk(b'["no","object"]\n')
    answer.wait_until_closed()


def bad_chunk_size(answer):
    answer.say("Half", " an")
    time.sleep(0.05)  # in one packet with the headers it would be an answer that never began
    answer.raw(b"zz\r\n{}\r\n")
    answer.wait_until_closed()


def huge_line(answer):
    answer.say("Half", " an")
    answer.chunk(b'{"model":"m","message":{"role":"assistant","content":"')
    piece = b"x" * MIB
    for _ in range(HUGE_LINE // MIB):
        answer.chunk(piece)


FAULTS = [
    *(silence, half_close, reset_in_mid_line, end_without_done_line, end_in_mid_line),
    *(malformed_line, line_of_another_kind, bad_chunk_size, huge_line),
]


class MemoryWatch:
    """Notes the largest resident size of a process, in bytes beyond its first."""

    def __init__(self, process):
        self._process = process
        self._before = self._most = process.memory_info().rss
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self._stop.wait(0.005):
            self._most = max(self._most, self._process.memory_info().rss)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    @property
    def growth(self):
        return self._most - self._before


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_upstream_is_a_typed_error_in_time_and_the_session_goes_on(
    front, upstream, eventually, fault
):
    upstream.behave = fault
    chat = front.chat()
    session_id = chat.new_session()
    with MemoryWatch(psutil.Process(front.process.pid)) as memory:
        events = chat.say(session_id, "x")
    assert [event.name for event in events] == [
        *("turn_started", "content_delta"),
        *("content_delta",) * ([event.name for event in events].count("content_delta") - 1),
        *("error", "done"),
    ]
    error = events[-2].data
    assert error["code"] == "OLLAMA_ERROR"
    assert error["details"]["provider"] == "ollama"
    assert isinstance(error["details"]["retryable"], bool)
    assert memory.growth < 64 * MIB
    partial = chat.messages(session_id)[-1]
    assert (partial["content"], partial["interrupted"]) == ("Half an", True)
    eventually(lambda: upstream.answers[-1].closed_at)
    upstream.behave = speak_well
    assert chat.say(session_id)[-2].data["content"] == "a whole answer"
    assert [m["content"] for m in chat.messages(session_id)] == ["x", "a whole answer"]


def test_a_model_that_never_says_a_word_is_given_up_in_time(front, upstream):
    upstream.behave = lambda answer: answer.wait_until_closed()
    chat = front.chat()
    session_id = chat.new_session()
    events = chat.say(session_id, "x")  # committed after 1.5 s, before the last of three tries
    assert [event.name for event in events][-2:] == ["error", "done"]
    assert events[-2].data["details"]["retryable"] is True
    assert [m["role"] for m in chat.messages(session_id)] == ["user"]
    upstream.behave = speak_well
    assert chat.say(session_id)[-2].name == "message_complete"


def test_nobody_there_is_a_plain_error(start):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    chat = start(MOCHI_OLLAMA_HOST=f"http://127.0.0.1:{port}").chat()
    session_id = chat.new_session()
    answer = chat.http.post(f"/chat/{session_id}/stream", json={"message": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "OLLAMA_UNREACHABLE")
    assert [m["role"] for m in chat.messages(session_id)] == ["user"]


def test_silence_is_filled_with_comments_for_every_kind_of_listener(start, patched, script):
    server = start("--workers", "2", MOCHI_E2E_HEARTBEAT_SECONDS="0.1", **patched)
    workers = server.web_processes
    owner = server.chat_with(workers[0])
    session_id = owner.new_session()
    message = script(["a", "b"], stall_after=1, stall_seconds=1.5)
    with owner.http.stream(
        "POST", f"/chat/{session_id}/stream", json={"message": message}
    ) as first:
        received = first.iter_bytes()
        streams = [next(received)]
        listeners = [server.chat_with(worker) for worker in workers]
        threads = [
            threading.Thread(
                target=lambda chat=chat: streams.append(
                    chat.http.get(f"/chat/{session_id}/stream").content
                )
            )
            for chat in listeners
        ]
        for thread in threads:
            thread.start()
        streams[0] += b"".join(received)
        for thread in threads:
            thread.join()
    assert len(streams) == 3
    for received in streams:
        assert received.count(b": keep-alive\n\n") >= 3
        assert b"event: done" in received.split(b"\n\n")[-2]


def test_the_heartbeat_is_due_after_fifteen_seconds():
    assert heartbeat.HEARTBEAT_SECONDS == journal_follower.HEARTBEAT_SECONDS == 15
