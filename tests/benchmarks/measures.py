"""The measurements. Each returns plain numbers; ``run.py`` interleaves them and prints."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from client import Connection, unchunk
from subjects import Direct, Server, Subject
from upstream import reply_text

from sessions_app.service import SessionManager

STREAM_RATE = 20
HELD_WITHIN = 0.050
CAPACITY_LEVELS = (100, 150, 220, 300, 400, 550, 750, 1000, 1300, 1600, 2000, 2500)


@dataclass(frozen=True, slots=True)
class Load:
    """How much of everything one round does."""

    connections: int = 16
    replies: int = 48
    first_tokens: int = 200
    paced_streams: int = 50
    paced_seconds: float = 5.0
    open_streams: int = 200
    departures: int = 10
    sessions: int = 10_000


async def check(subject: Subject) -> None:
    """Have one reply streamed and make sure that its text is the model's, token by token."""
    connection = await subject.connect()
    (request,) = await subject.prepare(connection, "bench:256x0", 1)
    reply = await connection.stream(request, keep_body=True)
    connection.leave()
    assert reply.tokens == 256, f"{subject.name}: {reply.tokens} events for 256 tokens"
    if not isinstance(subject, Direct):
        text = "".join(
            json.loads(event.partition("data: ")[2])["content"]
            for event in unchunk(reply.body).decode().replace("\r\n", "\n").split("\n\n")
            if "event: content_delta" in event
        )
        assert text.strip() == reply_text(256).strip(), f"{subject.name} changed the text"


async def saturated(
    subject: Subject, server: Server | None, load: Load, share: float
) -> dict[str, float]:
    """Stream 256-token replies on 16 connections at full speed.

    ``share`` scales the number of replies, so that a slow subject takes no longer than a fast one.
    """
    replies = max(2, round(load.replies * share))
    connections = [await subject.connect() for _ in range(load.connections)]
    requests = [await subject.prepare(one, "bench:256x0", replies) for one in connections]
    before, began = _cpu(server), time.perf_counter()

    async def converse(connection: Connection, turns: Sequence[bytes]) -> int:
        return sum([(await connection.stream(turn)).tokens for turn in turns])

    tokens = sum(await asyncio.gather(*map(converse, connections, requests)))
    elapsed, spent = time.perf_counter() - began, _cpu(server) - before
    for connection in connections:
        connection.leave()
    return {"cpu_us_per_token": spent / tokens * 1e6, "tokens_per_second": tokens / elapsed}


async def first_tokens(subject: Subject, load: Load) -> list[float]:
    """Seconds to the first token, one request at a time."""
    connection = await subject.connect()
    requests = await subject.prepare(connection, "bench:16x0", load.first_tokens)
    times = [(await connection.stream(request)).to_first_token for request in requests]
    connection.leave()
    return times


async def paced(subject: Subject, server: Server | None, load: Load) -> dict[str, float]:
    """Hold streams of 20 tokens a second; counts only the time in which all of them run."""
    streams = await open_streams(subject, "bench:1000x20", load.paced_streams, keep_arrivals=True)
    tokens, before = sum(one.reply.tokens for one in streams), _cpu(server)
    await asyncio.sleep(load.paced_seconds)
    tokens, spent = sum(one.reply.tokens for one in streams) - tokens, _cpu(server) - before
    late = [lateness for one in streams for lateness in _lateness(one.reply.arrivals)]
    for connection in streams:
        connection.leave()
    return {"cpu_us_per_token": spent / tokens * 1e6, "jitter_p99": percentile(late, 99)}


async def capacity(subject: Subject, load: Load) -> int:
    """Return how many streams of 20 tokens a second it holds, 99 % of them within 50 ms."""
    held = 0
    for level in CAPACITY_LEVELS:
        if not (await _holds(subject, level, load) or await _holds(subject, level, load)):
            break
        held = level
    return held


async def _holds(subject: Subject, level: int, load: Load) -> bool:
    streams = await open_streams(subject, "bench:1000x20", level, keep_arrivals=True)
    for connection in streams:
        connection.reply.arrivals.clear()  # what opening cost is not what is asked
    await asyncio.sleep(load.paced_seconds)
    late = [lateness for one in streams for lateness in _lateness(one.reply.arrivals)]
    for connection in streams:
        connection.leave()
    await asyncio.sleep(0.5)
    return percentile(late, 99) < HELD_WITHIN


async def held_streams(subject: Subject, server: Server, load: Load) -> dict[str, float]:
    """Memory and threads that open streams cost."""
    for one in await open_streams(subject, "bench:1000x2", 4):
        one.leave()
    connections = [await subject.connect() for _ in range(load.open_streams)]
    requests = [await subject.prepare(one, "bench:1000x2", 1) for one in connections]
    idle, idle_threads = server.rss(), server.threads()
    await _start_all(connections, [first for (first,) in requests])
    await asyncio.sleep(1)
    figures = {
        "idle_rss": idle,
        "rss_per_stream": (server.rss() - idle) / load.open_streams,
        "idle_threads": idle_threads,
        "threads": server.threads(),
    }
    for connection in connections:
        connection.leave()
    return figures


async def departures(subject: Subject, upstream_url: str, load: Load) -> list[float]:
    """Seconds from a client's leaving in mid-stream until the upstream's connection is closed."""
    observer = await Connection.open(upstream_url, Direct.marker)
    times = []
    for _ in range(load.departures):
        (connection,) = await open_streams(subject, "bench:1000x20", 1)
        known = len((await observer.ask("GET", "/bench/stats"))["broken_at"])
        left = time.monotonic()
        connection.leave()
        while len(broken := (await observer.ask("GET", "/bench/stats"))["broken_at"]) == known:
            if time.monotonic() - left > 10:
                raise RuntimeError(f"{subject.name} keeps the upstream of a client that left")
            await asyncio.sleep(0.005)
        times.append(broken[-1] - left)
    observer.leave()
    return times


async def upstream_cpu(upstream_url: str) -> float:
    """CPU seconds that the upstream itself has used."""
    observer = await Connection.open(upstream_url, Direct.marker)
    seconds = (await observer.ask("GET", "/bench/stats"))["cpu_seconds"]
    observer.leave()
    return float(seconds)


def listing(load: Load) -> dict[str, float]:
    """Seconds to list many sessions, warm, and to parse all their files with ``json``."""
    with TemporaryDirectory(prefix="mochi-bench-") as folder:
        for number in range(load.sessions):
            (Path(folder) / f"{number:010x}.json").write_text(_session_file(number))
        # A file changed a moment ago is read again: its next change might leave the same time.
        time.sleep(2.5)
        repository = SessionManager(folder).repository
        assert len(repository.list().sessions) == load.sessions

        def parse_all() -> None:
            for path in Path(folder).iterdir():
                if path.suffix == ".json":
                    json.loads(path.read_bytes())

        return {"warm": _typical(repository.list), "json": _typical(parse_all)}


async def open_streams(
    subject: Subject, model: str, count: int, *, keep_arrivals: bool = False
) -> list[Connection]:
    """Return connections whose streams have all begun."""
    connections = [await subject.connect() for _ in range(count)]
    requests = [await subject.prepare(one, model, 1) for one in connections]
    await _start_all(connections, [first for (first,) in requests], keep_arrivals=keep_arrivals)
    return connections


async def _start_all(
    connections: Sequence[Connection], requests: Sequence[bytes], *, keep_arrivals: bool = False
) -> None:
    begun = []
    for connection, request in zip(connections, requests, strict=True):
        connection.start(request, keep_arrivals=keep_arrivals)
        assert connection.first_token is not None
        begun.append(connection.first_token)
        await asyncio.sleep(0.005)
    await asyncio.wait_for(asyncio.gather(*begun), 30)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which so many percent of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def _cpu(server: Server | None) -> float:
    return server.cpu_seconds() if server is not None else time.process_time()


def _lateness(arrivals: Sequence[float]) -> list[float]:
    """How far gaps between reads lie from the pace (skips the upstream's random first gap)."""
    return [abs(later - earlier - 1 / STREAM_RATE) for earlier, later in pairwise(arrivals[1:])]


def _typical(action: Callable[[], object], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return median(times)


def _session_file(number: int) -> str:
    """Return a conversation of eight messages in format 1.3, about 4 KiB."""
    stamp = f"2026-11-21T01:10:16.{number:06d}+00:00"
    answered = {"model": "bench:256x0", "eval_count": 90, "prompt_eval_count": 400}
    messages = [
        {
            "role": ("user", "assistant")[index % 2],
            "content": f"Message {index} of session {number}. " + "Some words follow. " * 22,
            "message_id": f"{index:010x}",
            "timestamp": stamp,
            **(answered if index % 2 else {}),
        }
        for index in range(8)
    ]
    metadata = {
        "session_id": f"{number:010x}",
        "model": "bench:256x0",
        "created_at": stamp,
        "updated_at": stamp,
        "message_count": len(messages),
        "summary": None,
        "summary_model": None,
        "format_version": "1.3",
        "preview": str(messages[0]["content"])[:100],
    }
    return json.dumps({"metadata": metadata, "messages": messages}, indent=2)
