"""How costs grow: with the length of a session, with the streams that are open, with the turns."""

import asyncio
from collections.abc import AsyncIterator
from statistics import median

import measures
import storage
from measures import Load
from subjects import Ours, Server

from sessions_app.service import SessionManager

STEPS = 5


async def after_history(
    subject: Ours, server: Server, messages: int, load: Load
) -> dict[str, float]:
    """What a turn and a token cost in sessions that have so many messages already.

    A turn is one of 256 tokens at full speed, one at a time. A token is one of those that come
    while all the sessions stream 20 a second.
    """
    manager = SessionManager(server.folder / "chat_sessions")
    sessions = [
        await asyncio.to_thread(storage.plant, manager, "bench:256x0", messages)
        for _ in range(load.historians)
    ]
    connections = [await subject.connect() for _ in sessions]
    turns = [
        subject.turn(connection, session_id)
        for connection, session_id in zip(connections, sessions, strict=True)
    ]
    for connection, turn in zip(connections, turns, strict=True):
        await connection.stream(turn)  # what is done once for a session: its window, what fits
    before, first = server.cpu_seconds(), []
    for connection, turn in zip(connections, turns, strict=True):
        first.append((await connection.stream(turn)).to_first_token)
    spent = server.cpu_seconds() - before
    for session_id in sessions:
        await asyncio.to_thread(manager.update, session_id, model="bench:1000x20")
    await measures.start_all(connections, turns, keep_arrivals=True)
    figures = await measures.watch(connections, server, load.watched_seconds)
    return {
        "turn": spent / len(sessions),
        "first_token": median(first),
        "token": figures["cpu_us_per_token"],
    }


async def memory_over_turns(
    subject: Ours, server: Server, load: Load
) -> AsyncIterator[tuple[int, float]]:
    """Yield, after every fifth of the turns, how many there were and the resident memory then."""
    connections = [await subject.connect() for _ in range(load.connections)]
    yield 0, server.rss()
    each = load.turns // STEPS // len(connections)
    for step in range(1, STEPS + 1):
        requests = [await subject.prepare(one, "bench:16x0", each) for one in connections]

        async def converse(number: int, requests: list[list[bytes]] = requests) -> None:
            for turn in requests[number]:
                await connections[number].stream(turn)

        await asyncio.gather(*map(converse, range(len(connections))))
        yield step * each * len(connections), server.rss()
    for connection in connections:
        connection.leave()
