"""What two workers hold beside one: what a token costs them, and how evenly they share the streams.

The machine may have no core to spare: so both run on one, and what is measured is processor time.
On cores of their own, two workers that spend the same on a token, and have half of the streams
each, hold twice as many as one. Two have twice as many streams as one here, as they would: what
wakes a worker up is shared by all its streams that have something to do.
"""

import asyncio
import time
from collections.abc import Sequence

import measures
from measures import Load
from subjects import Ours, Server, Subject, running

STREAMS = 150
"""For each worker."""
ENDLESS = "bench:1000x20"


async def two_beside_one(upstream_url: str, load: Load, rounds: int) -> list[dict[str, float]]:
    """Return the figures of each round; the servers take turns.

    ``workers_token`` is what a token costs two workers, as a share of what it costs one;
    ``workers_share`` the part of the processor time that the busier one has used;
    ``workers_gain`` how many times the streams of one they hold, by these two.
    """
    with (
        running(Ours, upstream_url) as (alone, one, _),
        running(Ours, upstream_url, MOCHI_WORKERS="2") as (shared, two, _),
    ):
        return [
            _figures(await _spent(alone, one, load, 1), await _spent(shared, two, load, 2))
            for _ in range(rounds)
        ]


def _figures(one: Sequence[float], two: Sequence[float]) -> dict[str, float]:
    cost, share = sum(two) / sum(one), max(two) / sum(two)
    return {"workers_token": cost, "workers_share": share, "workers_gain": 1 / (cost * share)}


async def _spent(subject: Subject, server: Server, load: Load, workers: int) -> list[float]:
    """Return the processor seconds a token of each of the server's workers."""
    streams = await measures.open_streams(subject, ENDLESS, STREAMS * workers)
    pids = _workers(server) if workers > 1 else [server.popen.pid]
    tokens, before = _tokens(streams), [_cpu_seconds(pid) for pid in pids]
    await asyncio.sleep(load.watched_seconds)
    spent = [_cpu_seconds(pid) - used for pid, used in zip(pids, before, strict=True)]
    tokens = _tokens(streams) - tokens
    for connection in streams:
        connection.leave()
    await asyncio.sleep(measures.LEFT_SECONDS)
    return [seconds / tokens for seconds in spent]


def _tokens(streams: Sequence[measures.Connection]) -> int:
    return sum(one.reply.tokens for one in streams)


def _workers(server: Server) -> list[int]:
    """Return the two processes that serve requests."""
    helpers = {one.pid for kind in ("worker", "hosts") for one in server.helpers(kind)}
    children = [child.pid for child in server.process.children() if child.pid not in helpers]
    return sorted(children, key=_cpu_seconds, reverse=True)[:2]


def _cpu_seconds(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)
