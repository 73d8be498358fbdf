"""How costs grow: with the length of a session, with the streams that are open, with the turns."""

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator
from statistics import median

import measures
import storage
from measures import Load
from subjects import Ours, Server

from sessions_app.service import SessionManager

STEPS = 5
FIRST_TURNS = 3
"""Turns after which a long session is as it stays for long: the first one's answer tells that it is
too long, the second leaves messages out, the third notes where they stand."""
SETTLING_SECONDS = 0.05
"""What a server gets to save a turn that it has answered."""


async def after_history(
    subject: Ours, server: Server, messages: int, load: Load
) -> dict[str, float]:
    """What a turn and a token cost in sessions that have so many messages already.

    A turn is one of 256 tokens at full speed, one at a time, in a session of which all was left
    out already that is not sent. A token is one of those that come while all the sessions stream 20
    a second.
    """
    manager = SessionManager(server.folder / "chat_sessions")
    sessions = [
        await asyncio.to_thread(storage.plant, manager, "bench:256x0", messages)
        for _ in range(load.historians)
    ]
    connection = await subject.connect()
    turns = [subject.turn(connection, session_id) for session_id in sessions]
    for turn in turns * FIRST_TURNS:
        await connection.stream(turn)
    before = server.cpu_seconds()
    first = [(await connection.stream(turn)).to_first_token for turn in turns]
    spent = server.cpu_seconds() - before
    connection.leave()
    for session_id in sessions:
        await asyncio.to_thread(manager.update, session_id, model="bench:1000x20")
    streams = await measures.start_all(subject, turns, keep_arrivals=True)
    figures = await measures.watch(streams, server, load.watched_seconds)
    return {
        "turn": spent / len(sessions),
        "first_token": median(first),
        "token": figures["cpu_us_per_token"],
    }


async def by_length(subject: Ours, server: Server, messages: int, load: Load) -> dict[str, float]:
    """Seconds to the first token of a session of that length, and processor seconds of its turn.

    Few messages are sent, whatever the length: the others are left out since the first turn. A
    session is ``untouched`` while the process has not read its file, and ``touched`` one turn
    later. Each turn is one of 16 tokens, alone.
    """
    folder = server.folder / "chat_sessions"
    manager = SessionManager(folder)
    planted = await asyncio.to_thread(storage.plant, manager, "bench:16x0", messages)
    connection = await subject.connect()
    for _ in range(FIRST_TURNS):
        await connection.stream(subject.turn(connection, planted))
    figures: dict[str, list[float]] = {}
    for _ in range(load.long_turns):
        session_id = secrets.token_hex(5)
        shutil.copy(folder / f"{planted}.json", folder / f"{session_id}.json")
        for state in ("untouched", "touched"):
            await asyncio.sleep(SETTLING_SECONDS)
            before = server.cpu_seconds()
            reply = await connection.stream(subject.turn(connection, session_id))
            await asyncio.sleep(SETTLING_SECONDS)
            spent = server.cpu_seconds() - before
            figures.setdefault(f"{state}_first_token", []).append(reply.to_first_token)
            figures.setdefault(f"{state}_turn", []).append(spent)
        await asyncio.to_thread(manager.delete, session_id)
    connection.leave()
    return {name: median(values) for name, values in figures.items()}


async def memory_over_turns(
    subject: Ours, server: Server, load: Load
) -> AsyncIterator[tuple[int, float]]:
    """Yield, after every fifth of the turns, how many there were and the resident memory then."""
    yield 0, server.rss()
    each = load.turns // STEPS // load.connections

    async def converse() -> None:
        connection = await subject.connect()
        for turn in await subject.prepare(connection, "bench:16x0", each):
            await connection.stream(turn)
        connection.leave()

    for step in range(1, STEPS + 1):
        await asyncio.gather(*(converse() for _ in range(load.connections)))
        yield step * each * load.connections, server.rss()
