"""What single turns cost: a tool call, picking a turn up again, and who else waits meanwhile."""

import asyncio
import time
from statistics import median

import storage
from client import Connection, unchunk
from measures import Load
from subjects import Ours, Server

from sessions_app.service import SessionManager

EVENTS = 5_000
ASIDE_FROM_TOKENS = 3
"""A turn tells of its beginning, its message and its end, beside its tokens."""


async def tool_calls(subject: Ours, load: Load) -> dict[str, float]:
    """Seconds of a turn that calls a tool, and what of them the tool is.

    ``tool_call`` is what it takes longer than a turn that is the same, two rounds with the model,
    but for the tool, which nobody has and so nobody runs. The two are run by turns.
    """
    connection = await subject.connect()
    tools = {"tools": ["echo"], "execution_policy": "never_confirm"}
    times: dict[str, list[float]] = {"bench-tool:16x0": [], "bench-miss:16x0": [], "bench:16x0": []}
    for _ in range(max(2, load.tool_turns // 5)):
        for model, taken in times.items():
            body = {"model": model, "tool_settings": tools}
            session = await connection.ask("POST", "/api/v1/sessions", body)
            turn = subject.turn(connection, session["session_id"])
            for _ in range(5):
                began = time.perf_counter()
                reply = await connection.stream(turn, keep_body=True)
                taken.append(time.perf_counter() - began)
                assert reply.tokens == 16, reply.body
                ran = b'"result":"once more"' in reply.body
                assert ran == (model == "bench-tool:16x0"), reply.body
    connection.leave()
    called, missed, plain = (median(taken[5:]) for taken in times.values())
    return {"tool_turn": called, "tool_call": called - missed, "plain_turn": plain}


async def reattachment(subject: Ours, load: Load) -> dict[str, float]:
    """Seconds to get all events of a turn of 5,000 once more, and how many come a second."""
    connection = await subject.connect()
    (turn,) = await subject.prepare(connection, f"bench:{EVENTS - ASIDE_FROM_TOKENS}x0", 1)
    await connection.stream(turn)
    again = connection.request_bytes("GET", turn.split(b" ")[1].decode())
    times = []
    for _ in range(load.reattachments):
        began = time.perf_counter()
        reply = await connection.stream(again, keep_body=True)
        times.append(time.perf_counter() - began)
        # Not as it is counted on the way: a marker may lie across two of HTTP's chunks here.
        assert unchunk(reply.body).count(b"\nevent: ") == EVENTS, reply.body[-500:]
    connection.leave()
    return {"reattach": median(times), "reattach_rate": EVENTS / median(times)}


async def others_wait(subject: Ours, server: Server, messages: int, load: Load) -> dict[str, float]:
    """Seconds that somebody else waits at most while a turn of a session of that length runs.

    Somebody else asks for something that is not there, which the event loop answers by itself,
    again and again. For every turn the longest of these waits is taken, and of them the median.
    """
    manager = SessionManager(server.folder / "chat_sessions")
    session_id = await asyncio.to_thread(storage.plant, manager, "bench:16x0", messages)
    speaker = await subject.connect()
    turn = subject.turn(speaker, session_id)
    await speaker.stream(turn)  # what is done once for a session: its window, what fits
    asker = await subject.connect()
    await longest_wait(asker, speaker, turn)
    longest = [await longest_wait(asker, speaker, turn) for _ in range(load.waits)]
    speaker.leave()
    asker.leave()
    return {"wait": median(longest)}


async def longest_wait(asker: Connection, speaker: Connection, turn: bytes) -> float:
    """Return the seconds that somebody else waits at most while a turn runs."""
    question = asker.request_bytes("GET", "/api/v1/nothing")
    ended = speaker.start(turn)
    waits = []
    while not ended.done():
        began = time.perf_counter()
        await asker.start(question)
        waits.append(time.perf_counter() - began)
    assert speaker.reply.status == 200
    return max(waits)
