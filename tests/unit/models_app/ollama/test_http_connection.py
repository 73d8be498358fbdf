"""The connection on which answers stream, against servers that write raw bytes."""

import asyncio

import pytest

from models_app.ollama.http_connection import (
    BUFFERED_BYTES,
    MAX_HEAD_BYTES,
    ConnectionLost,
    ProtocolError,
    ReadTimeout,
)
from tests.unit.models_app.ollama.raw_servers import (
    ASK,
    CHUNKED,
    EMPTY,
    answer_of,
    body_of,
    request_of,
    saying,
    serving,
)


async def test_a_request_is_sent_whole_and_its_answer_read():
    seen = []

    async def answer(reader, writer):
        seen.append(await request_of(reader))
        writer.write(CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        await reader.read()

    async with serving(answer) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        assert connection.status == 200
        assert await body_of(connection) == b"abcde"
        pool.release(connection)
    assert seen == [b"POST /x HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 2\r\n\r\n{}"]


async def test_a_new_connection_that_closes_without_an_answer_is_an_error():
    async with serving(saying()) as pool:
        with pytest.raises(ConnectionLost):
            await pool.send(ASK, silence_timeout=30)


async def test_an_answer_that_is_cut_off_hands_out_what_came_first():
    async with serving(saying(CHUNKED + b"3\r\nabc\r\n", b"5\r\nde")) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        came = bytearray()
        with pytest.raises(ConnectionLost):
            await body_of(connection, came)
        assert came == b"abcde"
        pool.release(connection)
        assert not connection.is_usable


async def test_a_body_without_a_length_ends_with_the_connection():
    async with serving(saying(b"HTTP/1.1 200 OK\r\n\r\n", b"abc", b"def")) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        assert await body_of(connection) == b"abcdef"
        assert not connection.is_reusable()


async def test_an_interim_answer_is_followed_by_the_real_one():
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    async with serving(saying(interim, EMPTY)) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        assert (connection.status, "link" in connection.headers) == (200, False)


@pytest.mark.parametrize(
    "answer",
    [
        b"this is not HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (MAX_HEAD_BYTES + 10),
        b"HTTP/1.1 200 OK\r\nContent-Length: zwei\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_an_error(answer):
    async with serving(saying(answer, then="wait")) as pool:
        with pytest.raises(ProtocolError):
            await pool.send(ASK, silence_timeout=30)


def endless(before, piece):
    """Answer with ``before`` and then with pieces, until the client has had enough."""

    async def answer(reader, writer):
        await request_of(reader)
        writer.write(before)
        for number in range(4000):
            writer.write(piece.replace(b"N", b"%d" % number))
            await writer.drain()
        raise AssertionError("40 MB were taken in")

    return answer


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        (CHUNKED + b"1\r\na\r\n0\r\n", b"X-N: " + b"x" * 10_000 + b"\r\n"),
        (CHUNKED + b"1\r\na\r\n0\r\nX: ", b"x" * 10_000),
        (CHUNKED + b"1\r\na\r\n5;e=", b"x" * 10_000),
    ],
    ids=["trailers", "a trailer", "an extension of a chunk"],
)
async def test_what_is_not_the_body_is_bounded_after_the_head_too(before, piece):
    async with serving(endless(before, piece)) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        body = bytearray()
        with pytest.raises(ProtocolError):
            await body_of(connection, body)
        assert body == b"a"
        kept = sum(map(len, connection._headers.values()))
        assert kept < 1_000_000  # no more than one read beyond the bound
        assert not connection.is_usable


async def test_trailers_of_a_reasonable_size_are_no_error():
    trailers = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(30))
    answer = CHUNKED + b"1\r\na\r\n0\r\n" + trailers + b"\r\n"
    async with serving(saying(answer, then="wait")) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        assert await body_of(connection) == b"a"
        assert connection.is_reusable()


async def test_many_long_extensions_between_pieces_of_a_body_are_no_error():
    piece = b"1;e=" + b"x" * 30_000 + b"\r\na\r\n"
    async with serving(saying(CHUNKED, *[piece] * 10, b"0\r\n\r\n", then="wait")) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        assert await body_of(connection) == b"a" * 10


async def test_more_than_was_asked_for_makes_the_connection_useless():
    async with serving(saying(EMPTY, b"HTTP/1.1 200 OK\r\n", then="wait")) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        await body_of(connection)
        async with asyncio.timeout(30):
            while connection.is_usable:
                await asyncio.sleep(0.001)
        assert not connection.is_reusable()


@pytest.mark.parametrize("pieces", [(), (CHUNKED,), (CHUNKED, b"1\r\na\r\n")])
async def test_silence_is_an_error(pieces):
    async with serving(saying(*pieces, then="wait")) as pool:
        with pytest.raises(ReadTimeout):
            await answer_of(pool, 0.1)


async def test_a_slow_reader_holds_the_server_up_and_gets_everything():
    piece = b"x" * 65536
    written = []

    async def answer(reader, writer):
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (400 * len(piece)))
        for _ in range(400):
            writer.write(piece)
            written.append(len(piece))
            await writer.drain()

    async with serving(answer) as pool:
        connection = await pool.send(ASK, silence_timeout=1)
        async with asyncio.timeout(30):
            while not connection._paused:
                await asyncio.sleep(0.001)
        assert connection._buffered < BUFFERED_BYTES + 300_000
        await asyncio.sleep(1.2)  # longer than the silence that is allowed: it is we who are silent
        assert sum(written) < 400 * len(piece)
        assert len(await body_of(connection)) == 400 * len(piece)


async def test_a_shorter_silence_than_the_last_request_allowed_is_kept_to():
    async def answer_once(reader, writer):
        await request_of(reader)
        writer.write(EMPTY)
        await reader.read()

    async with serving(answer_once) as pool:
        connection = await pool.send(ASK, silence_timeout=60)
        await body_of(connection)
        pool.release(connection)
        async with asyncio.timeout(30):
            with pytest.raises(ReadTimeout):
                await pool.send(ASK, silence_timeout=0.1)


async def test_a_connection_that_nobody_uses_is_not_silent():
    async def answer_twice(reader, writer):
        for _ in range(2):
            await request_of(reader)
            writer.write(EMPTY)
        await reader.read()

    async with serving(answer_twice) as pool:
        connection = await pool.send(ASK, silence_timeout=0.5)
        await body_of(connection)
        pool.release(connection)
        async with asyncio.timeout(30):
            while connection._timer is not None:
                await asyncio.sleep(0.005)
        assert await pool.send(ASK, silence_timeout=30) is connection


async def test_the_frame_of_a_chunk_alone_is_no_news():
    async with serving(saying(CHUNKED, then="wait")) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        for frame, data in ((b"3\r\n", b"abc"), (b"\r\n2\r\n", b"de")):
            readable = connection.readable()
            connection.data_received(frame)
            assert not readable.done()
            connection.data_received(data)
            assert readable.done()
            assert connection.read_available() == data
        readable = connection.readable()
        connection.data_received(b"\r\n0\r\n")
        assert not readable.done()
        connection.data_received(b"\r\n")
        assert readable.done()
        assert connection.read_available() == b""
        assert connection.is_reusable()


async def test_a_connection_reads_many_answers_of_all_kinds():
    answers = [
        CHUNKED + b"1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb",
        b"HTTP/1.1 404 Not Found\r\nX-More: c\r\nContent-Length: 1\r\n\r\nc",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        EMPTY,
    ]

    async def answer(reader, writer):
        for each in answers:
            await request_of(reader)
            writer.write(each)

    async with serving(answer) as pool:
        seen = []
        for _ in answers:
            connection = await pool.send(ASK, silence_timeout=30)
            seen.append((connection.status, await body_of(connection), len(connection.headers)))
            pool.release(connection)
    assert seen == [
        (200, b"a", 1), (200, b"b", 1), (404, b"c", 2), (204, b"", 0), (200, b"", 1),
    ]  # fmt: skip


async def test_a_cancelled_request_closes_its_connection():
    asked, closed = asyncio.Event(), asyncio.Event()

    async def answer(reader, writer):
        await request_of(reader)
        asked.set()
        await reader.read()
        closed.set()

    async with serving(answer) as pool:
        asking = asyncio.create_task(pool.send(ASK, silence_timeout=30))
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        async with asyncio.timeout(30):
            await closed.wait()
        assert not pool._used
