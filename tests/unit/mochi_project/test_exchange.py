"""What our protocol offers beside ASGI: pieces of a response that are written at once."""

from types import SimpleNamespace

import pytest

from mochi_project.exchange import Exchange


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
    write = Exchange(cycle).writer(cycle.send)

    assert write(b"data: x\n\n" * 2)
    assert cycle.written == [b"12\r\ndata: x\n\ndata: x\n\n\r\n"]


def test_whoever_stands_between_gets_to_see_every_piece(cycle):
    async def compressing(message):
        await cycle.send(message)

    assert Exchange(cycle).writer(compressing) is None


@pytest.mark.parametrize(
    ("what", "value"),
    [("disconnected", True), ("chunked_encoding", False), ("response_complete", True)],
)
def test_what_is_no_piece_of_a_running_chunked_response_is_left_to_the_server(cycle, what, value):
    write = Exchange(cycle).writer(cycle.send)
    setattr(cycle, what, value)

    assert not write(b"x")
    assert cycle.written == []


def test_a_client_that_does_not_keep_up_is_waited_for(cycle):
    write = Exchange(cycle).writer(cycle.send)
    cycle.flow.write_paused = True
    assert not write(b"x")
    cycle.flow.write_paused = False
    assert write(b"x")


def test_an_answer_to_head_has_no_body(cycle):
    cycle.scope["method"] = "HEAD"
    assert not Exchange(cycle).writer(cycle.send)(b"x")
    assert cycle.written == []


def test_a_client_that_left_before_anybody_asked_is_told_of_at_once_and_only_once(cycle):
    cycle.flow.resume_reading = lambda: None
    exchange = Exchange(cycle)
    write = exchange.writer(cycle.send)
    told = []
    exchange.leave()  # uvicorn notes it down for a request that is pipelined behind, not for this

    exchange.call_when_left(lambda: told.append("left"))
    exchange.leave()

    assert told == ["left"]
    assert not write(b"x")
