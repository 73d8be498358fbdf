"""What our protocol offers beside ASGI: pieces of a response that are written at once."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from mochi_project.exchange import Exchange
from mochi_project.guard.response_headers import AddingHeaders

pytestmark = pytest.mark.conformance


@pytest.fixture
def cycle():
    async def send(message):
        """The server's own."""

    written = []
    return SimpleNamespace(
        scope={"method": "POST"},
        send=send,
        written=written,
        transport=SimpleNamespace(write=written.append),
        flow=SimpleNamespace(write_paused=False),
        disconnected=False,
        chunked_encoding=True,
        response_complete=False,
    )


def test_a_piece_is_written_as_one_chunk(cycle):
    write = Exchange(cycle).sink(cycle.send)

    assert write(b"data: x\n\n" * 2)
    assert cycle.written == [b"12\r\ndata: x\n\ndata: x\n\n\r\n"]


def test_whoever_stands_between_gets_to_see_every_piece(cycle):
    async def compressing(message):
        await cycle.send(message)

    assert Exchange(cycle).sink(compressing) is None
    assert Exchange(cycle).sink(AddingHeaders((), compressing)) is None


def test_the_guard_that_changes_only_the_start_need_not_see_pieces(cycle):
    assert Exchange(cycle).sink(AddingHeaders((), cycle.send)) is not None


@pytest.mark.parametrize(
    ("what", "value"),
    [("disconnected", True), ("chunked_encoding", False), ("response_complete", True)],
)
def test_what_is_no_piece_of_a_running_chunked_response_is_left_to_the_server(cycle, what, value):
    write = Exchange(cycle).sink(cycle.send)
    setattr(cycle, what, value)

    assert not write(b"x")
    assert cycle.written == []


def test_a_client_that_does_not_keep_up_is_waited_for(cycle):
    write = Exchange(cycle).sink(cycle.send)
    cycle.flow.write_paused = True
    assert not write(b"x")
    cycle.flow.write_paused = False
    assert write(b"x")


def test_an_answer_to_head_has_no_body(cycle):
    cycle.scope["method"] = "HEAD"
    assert not Exchange(cycle).sink(cycle.send)(b"x")
    assert cycle.written == []


def test_a_client_that_left_before_anybody_asked_is_told_of_at_once_and_only_once(cycle):
    cycle.flow.resume_reading = lambda: None
    exchange = Exchange(cycle)
    write = exchange.sink(cycle.send)
    told = []
    exchange.note_lost()  # uvicorn notes it for a request that is pipelined behind, not for this

    exchange.on_disconnect(lambda: told.append("left"))
    exchange.disconnect()

    assert told == ["left"]
    assert not write(b"x")


class Connection:
    """The transport and the flow control of uvicorn's own cycle; notes what is written."""

    write_paused = False

    def __init__(self):
        self.written = b""

    def write(self, data):
        self.written += data


START = {"type": "http.response.start", "status": 200, "headers": []}
END = {"type": "http.response.body"}


def uvicorns_cycle(connection, method):
    return RequestResponseCycle(
        scope={"type": "http", "method": method},
        transport=connection,
        flow=connection,
        logger=logging.getLogger(__name__),
        access_logger=logging.getLogger(__name__),
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=True,
        on_response=lambda: None,
    )


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
async def test_a_stream_is_the_same_to_the_byte_whether_its_pieces_are_pushed_or_sent(method):
    streams = []
    for pushes in (True, False):
        connection = Connection()
        cycle = uvicorns_cycle(connection, method)
        push = Exchange(cycle).sink(cycle.send)
        assert not push(b"before the start")
        await cycle.send(START)
        for piece in (b"one", b"x" * 70_000):
            if not (pushes and push(piece)):
                await cycle.send({"type": "http.response.body", "body": piece, "more_body": True})
        await cycle.send(END)
        assert not push(b"behind the end")
        streams.append(connection.written)

    assert streams[0] == streams[1]
    assert streams[0].endswith(b"\r\n\r\n") or method == "HEAD"
