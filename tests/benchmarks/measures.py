"""What streams cost and how they flow: plain numbers, which ``bench.py`` collects."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from client import Connection, unchunk
from subjects import ChatCompletions, Direct, Server, Subject, Yardstick
from upstream import reply_text

STREAM_RATE = 20
R_SHARE = 0.25
HELD_WITHIN = 0.050
HELD_PRECISION = 0.05
TRIES = 3
BEGUN_SECONDS = 30
REPLY_SECONDS = 100 / STREAM_RATE
LEFT_SECONDS = 0.5
"""What servers get to notice that streams were left, before something else is measured."""
CAPACITY_LEVELS = (100, 150, 200, 300, 400, 550, 750, 1_000, 1_250, 1_500, 2_000, 2_500, 3_000)


class NotHeldError(Exception):
    """So many streams are more than a server can hold."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much of everything one round does.

    Attributes:
        connections: Connections that stream at full speed.
        replies: Replies of 256 tokens on each of them.
        first_tokens: Turns whose first token is waited for.
        paced_streams: Streams of 20 tokens a second that run at once.
        paced_seconds: How long they are watched.
        first_streams: Streams that are open before their memory is taken.
        open_streams: Streams whose memory is taken.
        changing_streams: Streams of which each is followed by another, again and again.
        changing_replies: How many there are one after another.
        departures: Clients that leave in mid-stream.
        stored: How many sessions are listed.
        lengths: How many messages a session has that is saved.
        saves: How often it is.
        waits: Turns during which somebody else asks for something.
        uploads: Files of 20 MiB that are uploaded.
        tool_turns: Turns with a call of a tool.
        reattachments: How often a turn of 5,000 events is picked up again.
        histories: How many messages a session has that is chatted in.
        historians: How many such sessions there are.
        long_lengths: How many messages a session has of which few are sent.
        long_turns: How many turns each of these has.
        crowds: How many streams run at once.
        most_of_r: The most of them that R is asked for, which holds fewer.
        watched_seconds: How long streams are watched for a curve.
        turns: Turns over which the memory is watched.
        clustered_streams: Streams that run at once where several machines may answer.
        deaths: How many nodes die.
        observed_seconds: How long streams are watched where metrics and traces cost.
        observed_turns: How many turns of 100 paced tokens a stream has there.
        short_turns: How many turns of 16 tokens a connection has there, as fast as they come.
    """

    connections: int = 16
    replies: int = 48
    first_tokens: int = 200
    paced_streams: int = 50
    paced_seconds: float = 5.0
    first_streams: int = 50
    open_streams: int = 200
    changing_streams: int = 150
    changing_replies: int = 5
    departures: int = 10
    stored: tuple[int, ...] = (100, 1_000, 10_000)
    lengths: tuple[int, ...] = (10, 100, 1_000, 5_000)
    saves: int = 15
    waits: int = 20
    uploads: int = 5
    tool_turns: int = 100
    reattachments: int = 10
    histories: tuple[int, ...] = (0, 100, 1_000, 5_000)
    historians: int = 10
    long_lengths: tuple[int, ...] = (10, 1_000, 5_000, 50_000)
    long_turns: int = 15
    crowds: tuple[int, ...] = (10, 50, 200, 800, 1_400, 2_000)
    most_of_r: int = 200
    watched_seconds: float = 3.0
    turns: int = 10_000
    clustered_streams: int = 1_000
    deaths: int = 5
    observed_seconds: float = 15.0
    observed_turns: int = 5
    short_turns: int = 200


async def check(subject: Subject) -> None:
    """Have one reply streamed and make sure that it has the model's tokens, natively its text."""
    connection = await subject.connect()
    (request,) = await subject.prepare(connection, "bench:256x0", 1)
    reply = await connection.stream(request, keep_body=True)
    connection.leave()
    assert reply.tokens == 256, f"{subject.name}: {reply.tokens} events for 256 tokens"
    if not isinstance(subject, Direct | ChatCompletions):
        text = "".join(
            json.loads(event.partition("data: ")[2])["content"]
            for event in unchunk(reply.body).decode().replace("\r\n", "\n").split("\n\n")
            if "event: content_delta" in event
        )
        assert text.strip() == reply_text(256).strip(), f"{subject.name} changed the text"


async def saturated(subject: Subject, server: Server | None, load: Load) -> dict[str, float]:
    """Stream 256-token replies on 16 connections at full speed.

    R has fewer replies, so that it takes no longer than the others.
    """
    share = R_SHARE if isinstance(subject, Yardstick) else 1
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


async def first_tokens(subject: Subject, load: Load, *, on_the_fly: bool = False) -> list[float]:
    """Seconds to the first token, one request at a time; sessions made before or by the request."""
    connection = await subject.connect()
    prepare = subject.prepare_new if on_the_fly else subject.prepare
    requests = await prepare(connection, "bench:16x0", load.first_tokens)
    times = [(await connection.stream(request)).to_first_token for request in requests]
    connection.leave()
    return times


async def paced(subject: Subject, server: Server, streams: int, seconds: float) -> dict[str, float]:
    """Hold streams of 20 tokens a second; counts only the time in which all of them run."""
    opened = await open_streams(subject, "bench:1000x20", streams, keep_arrivals=True)
    return await watch(opened, server, seconds)


async def watch(streams: Sequence[Connection], server: Server, seconds: float) -> dict[str, float]:
    """Return what running streams cost for so many seconds; then leave them."""
    tokens, before = sum(one.reply.tokens for one in streams), server.cpu_seconds()
    await asyncio.sleep(seconds)
    spent = server.cpu_seconds() - before
    tokens = sum(one.reply.tokens for one in streams) - tokens
    late = [lateness for one in streams for lateness in _lateness(one.reply.arrivals)]
    for connection in streams:
        connection.leave()
    await asyncio.sleep(LEFT_SECONDS)
    return {"cpu_us_per_token": spent / tokens * 1e6, "jitter_p99": percentile(late, 99)}


async def capacity(subject: Subject, load: Load) -> int:
    """Return how many streams of 20 tokens a second it holds, 99 % of them within 50 ms."""

    async def holds(level: int) -> bool:
        """Try a few times: machines stand still for tens of milliseconds now and then."""
        for _ in range(TRIES):
            if await _holds_once(subject, level, load):
                return True
        return False

    return await most_held(holds)


async def most_held(holds: Callable[[int], Awaitable[bool]]) -> int:
    """Return the highest level that is held: up by steps, then by halving to within a twentieth."""
    held, missed = 0, None
    for level in CAPACITY_LEVELS:
        if not await holds(level):
            missed = level
            break
        held = level
    while missed and missed - held > max(held * HELD_PRECISION, 1):
        level = (held + missed) // 2
        if await holds(level):
            held = level
        else:
            missed = level
    return held


async def _holds_once(subject: Subject, level: int, load: Load) -> bool:
    try:
        streams = await open_streams(subject, "bench:1000x20", level, keep_arrivals=True)
    except NotHeldError:
        return False
    for connection in streams:
        connection.reply.arrivals.clear()  # what opening cost is not what is asked
    await asyncio.sleep(load.paced_seconds)
    late = [lateness for one in streams for lateness in _lateness(one.reply.arrivals)]
    for connection in streams:
        connection.leave()
    await asyncio.sleep(LEFT_SECONDS)
    return percentile(late, 99) < HELD_WITHIN


async def held_streams(subject: Subject, server: Server, load: Load) -> dict[str, float]:
    """Memory and threads that open streams cost.

    The first of them are not what a stream's memory is reckoned from: what is made once, on first
    use, belongs to no stream. It is in the memory with all streams open.
    """
    first = load.first_streams
    requests = await _prepared(subject, "bench:1000x2", first + load.open_streams)
    idle, idle_threads = server.rss(), server.threads()
    connections = await start_all(subject, requests[:first])
    await asyncio.sleep(1)
    begun = server.rss()
    connections += await start_all(subject, requests[first:])
    await asyncio.sleep(1)
    figures = {
        "idle_rss": idle,
        "open_rss": server.rss(),
        "rss_per_stream": (server.rss() - begun) / load.open_streams,
        "idle_threads": idle_threads,
        "threads": server.threads(),
    }
    for connection in connections:
        connection.leave()
    await asyncio.sleep(LEFT_SECONDS)
    return figures


async def changing_streams(subject: Subject, server: Server, load: Load) -> dict[str, float]:
    """Hold streams of five seconds each, one after another, so that turns always begin and end."""
    late: list[float] = []
    tokens, before = 0, server.cpu_seconds()

    async def converse(number: int) -> None:
        nonlocal tokens
        connection = await subject.connect()
        requests = await subject.prepare(connection, "bench:100x20", load.changing_replies)
        await asyncio.sleep(number * REPLY_SECONDS / load.changing_streams)
        for request in requests:
            await connection.start(request, keep_arrivals=True)
            late.extend(_lateness(connection.reply.arrivals))
            tokens += connection.reply.tokens
        connection.leave()

    await asyncio.gather(*map(converse, range(load.changing_streams)))
    return {
        "changing": (server.cpu_seconds() - before) / tokens * 1e6,
        "changing_p99": percentile(late, 99),
        "changing_p999": percentile(late, 99.9),
    }


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


async def open_streams(
    subject: Subject, model: str, count: int, *, keep_arrivals: bool = False
) -> list[Connection]:
    """Return connections whose streams have all begun."""
    requests = await _prepared(subject, model, count)
    return await start_all(subject, requests, keep_arrivals=keep_arrivals)


async def start_all(
    subject: Subject, requests: Sequence[bytes], *, keep_arrivals: bool = False
) -> list[Connection]:
    """Send requests a little apart, on connections of their own; returns when all have begun.

    Raises:
        NotHeldError: They don't all begin.
    """
    connections, begun = [], []
    for request in requests:
        connection = await subject.connect()
        connection.start(request, keep_arrivals=keep_arrivals)
        assert connection.first_token is not None
        connections.append(connection)
        begun.append(connection.first_token)
        await asyncio.sleep(0.005)
    try:
        await asyncio.wait_for(asyncio.gather(*begun), BEGUN_SECONDS)
    except TimeoutError:
        for connection in connections:
            connection.leave()
        raise NotHeldError(f"{subject.name} does not begin {len(requests)} streams") from None
    return connections


async def _prepared(subject: Subject, model: str, count: int) -> list[bytes]:
    """Return the first requests of so many conversations."""
    # On one connection: servers close those that were used once and then wait for seconds.
    connection = await subject.connect()
    requests = [(await subject.prepare(connection, model, 1))[0] for _ in range(count)]
    connection.leave()
    return requests


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which so many percent of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def _cpu(server: Server | None) -> float:
    return server.cpu_seconds() if server is not None else time.process_time()


def _lateness(arrivals: Sequence[float]) -> list[float]:
    """How far gaps between reads lie from the pace (skips the upstream's random first gap)."""
    return [abs(later - earlier - 1 / STREAM_RATE) for earlier, later in pairwise(arrivals[1:])]
