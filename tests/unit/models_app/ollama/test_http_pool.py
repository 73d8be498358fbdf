"""Connections that are kept, against servers that write raw bytes."""

import asyncio

import pytest

from models_app.ollama.http_connection import ReadTimeout, request_head, with_length
from tests.unit.models_app.ollama.raw_servers import (
    ASK,
    CHUNKED,
    EMPTY,
    KEEP_SECONDS,
    answer_of,
    body_of,
    request_of,
    saying,
    serving,
)


async def test_a_kept_connection_is_used_again():
    async def answer(reader, writer):
        for _ in range(3):
            await request_of(reader)
            writer.write(EMPTY)

    async with serving(answer) as pool:
        used = set()
        for _ in range(3):
            connection = await pool.send(ASK, silence_timeout=30)
            used.add(id(connection))
            assert await body_of(connection) == b""
            pool.release(connection)
        assert len(used) == 1


async def test_a_kept_connection_that_the_server_closes_meanwhile_is_replaced():
    async def close_after_the_second_request(reader, writer):
        await request_of(reader)
        writer.write(EMPTY)
        await request_of(reader)  # and not a byte in answer

    async with serving(close_after_the_second_request, saying(EMPTY)) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        await body_of(connection)
        pool.release(connection)
        again = await pool.send(ASK, silence_timeout=30)
        assert again is not connection
        assert again.status == 200


async def test_a_connection_that_the_server_wants_closed_is_not_kept():
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
    async with serving(saying(closing, then="wait")) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        await body_of(connection)
        assert not connection.is_reusable()


async def test_a_connection_whose_answer_was_not_read_whole_is_not_kept():
    async with serving(saying(CHUNKED + b"1\r\na\r\n", then="wait"), saying(EMPTY)) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        assert await connection.read() == b"a"
        connection.data_received(b"1\r\nb\r\n0\r\n\r\n")
        assert connection.is_complete
        pool.release(connection)
        assert await answer_of(pool, 5) == b""
        assert not connection.is_usable


async def test_an_unused_connection_is_closed_after_a_while():
    async with serving(saying(EMPTY, then="wait")) as pool:
        pool._keep_seconds = 0.05
        connection = await pool.send(ASK, silence_timeout=30)
        await body_of(connection)
        pool.release(connection)
        async with asyncio.timeout(30):
            while connection.is_usable:
                await asyncio.sleep(0.005)
        assert pool._take() is None


async def test_the_connections_that_wait_longest_are_closed_first(pass_time):
    async def answer(reader, writer):
        while True:
            await request_of(reader)
            writer.write(EMPTY)

    async with serving(answer, answer) as pool:
        first, second = await asyncio.gather(
            pool.send(ASK, silence_timeout=30), pool.send(ASK, silence_timeout=30)
        )
        pool.release(first)
        pass_time(KEEP_SECONDS / 2)
        pool.release(second)
        pass_time(KEEP_SECONDS / 2)
        while first.is_usable:
            await asyncio.sleep(0)
        assert second.is_usable
        pass_time(KEEP_SECONDS / 2)
        while second.is_usable:
            await asyncio.sleep(0)
        assert not pool._idle


PIECES = [bytes([number]) * 100_000 for number in range(30)]
LARGE = with_length(request_head("POST", "/x", host="h", headers={}), 3_000_000)


async def test_a_large_body_is_sent_in_pieces_between_which_others_have_their_turn():
    turns = 0

    def count_turns():
        nonlocal turns
        turns += 1
        counting[0] = loop.call_soon(count_turns)

    async def echo(reader, writer):
        request = await request_of(reader)
        matches = request.endswith(b"".join(PIECES))
        writer.write(EMPTY if matches else b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async with serving(echo) as pool:
        loop = asyncio.get_running_loop()
        counting = [loop.call_soon(count_turns)]
        connection = await pool.send(LARGE, silence_timeout=30, rest=PIECES)
        counting[0].cancel()
        assert connection.status == 200
        assert connection.is_reusable()
        assert turns >= len(PIECES)


async def test_a_large_body_is_sent_again_where_a_kept_connection_was_closed_meanwhile():
    async def close_in_mid_body(reader, writer):
        await request_of(reader)
        writer.write(EMPTY)
        await reader.readexactly(len(LARGE) + 1_000_000)

    async with serving(close_in_mid_body, saying(EMPTY, then="wait")) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        pool.release(connection)
        again = await pool.send(LARGE, silence_timeout=30, rest=PIECES)
        assert again is not connection
        assert again.status == 200


async def test_an_answer_that_comes_before_the_end_of_a_large_body_ends_it():
    async def refuse(reader, writer):
        await reader.readexactly(len(LARGE) + 100_000)
        writer.write(b"HTTP/1.1 413 Large\r\nContent-Length: 2\r\n\r\nno")
        await reader.read()  # of the rest, what was under way

    endless = (PIECES[0] for _ in iter(int, 1))
    async with serving(refuse) as pool:
        connection = await pool.send(LARGE, silence_timeout=30, rest=endless)
        assert connection.status == 413
        assert await body_of(connection) == b"no"
        assert not connection.is_reusable()


async def test_a_server_that_reads_nothing_of_a_large_body_counts_as_silent():
    async def wait(reader, writer):
        await reader.readexactly(len(LARGE))
        reader._transport.pause_reading()
        await asyncio.Event().wait()

    async with serving(wait) as pool:
        with pytest.raises(ReadTimeout):
            await pool.send(LARGE, silence_timeout=0.05, rest=PIECES)


async def test_who_waits_for_an_answer_sleeps_on_while_a_large_request_leaves():
    async with serving(saying(CHUNKED, then="wait")) as pool:
        connection = await pool.send(ASK, silence_timeout=30)
        waiting = connection.readable()
        connection.pause_writing()
        connection.resume_writing()
        assert not waiting.done()
