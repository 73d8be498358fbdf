"""What it costs to be watched: our server plain, with metrics, with traces that are exported.

The servers work at the same time on one core. What they differ by is a hundredth of what they cost,
and from one minute to the next the same server costs a third more or less.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import measures
from measures import Load
from subjects import Server, Subject

WATCHED: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "metrics": {"MOCHI_METRICS": "true"},
    "traces": {"MOCHI_TRACES": "true"},
}
"""What is switched on, by the name of the column."""
ENDLESS = "bench:1000x20"
PACED = "bench:100x20"
PACED_SECONDS = 5.0
SHORT = "bench:16x0"
TALKERS = 4
"""Connections that have short turns one after another."""
FIRST = Load(paced_streams=10, observed_seconds=1, observed_turns=1, short_turns=25)
"""What comes before that is not measured: what is made and imported once."""

Watched = Mapping[str, tuple[Subject, Server]]
Requests = Sequence[Sequence[bytes]]
"""The turns of each connection."""
Figures = Mapping[str, Mapping[str, float]]
"""What was measured, by the name of the server and that of the figure."""


def variables(name: str, upstream_url: str) -> dict[str, str]:
    """Return the environment of a server; the scripted model server takes its spans, too."""
    return {**WATCHED[name], "OTEL_EXPORTER_OTLP_ENDPOINT": upstream_url}


async def compare(watched: Watched, load: Load) -> Figures:
    """Return what tokens and turns cost each server, in seconds of processor time."""

    async def tokens(subject: Subject, server: Server, requests: Requests) -> float:
        return await _running(subject, server, requests, load.observed_seconds)

    return {
        name: {"observed_token": token, "observed_paced_turn": paced, "observed_turn": short}
        for name, token, paced, short in zip(
            watched,
            await _beside(watched, tokens, ENDLESS, load.paced_streams, 1),
            await _beside(watched, _paced, PACED, load.paced_streams, load.observed_turns),
            await _beside(watched, _short, SHORT, TALKERS, load.short_turns),
            strict=True,
        )
    }


async def _beside(
    watched: Watched,
    work: Callable[[Subject, Server, Requests], Awaitable[float]],
    model: str,
    connections: int,
    turns: int,
) -> list[float]:
    """Have all servers do the same at the same time."""
    requests = [
        [await _turns(subject, model, turns) for _ in range(connections)]
        for subject, _ in watched.values()
    ]
    pairs = zip(watched.values(), requests, strict=True)
    return await asyncio.gather(*(work(*server, asked) for server, asked in pairs))


async def _turns(subject: Subject, model: str, turns: int) -> Sequence[bytes]:
    """Return the requests for turns, on a connection of their own: servers close idle ones."""
    connection = await subject.connect()
    requests = await subject.prepare(connection, model, turns)
    connection.leave()
    return requests


async def _running(subject: Subject, server: Server, requests: Requests, seconds: float) -> float:
    """Return what a token costs while streams run: no turn begins or ends meanwhile."""
    streams = await measures.start_all(subject, [each for (each,) in requests], keep_arrivals=True)
    figures = await measures.watch(streams, server, seconds)
    return figures["cpu_us_per_token"] / 1e6


async def _paced(subject: Subject, server: Server, requests: Requests) -> float:
    """Return what a token costs with its share of a turn; turns begin one after another."""
    before = server.cpu_seconds()

    async def converse(number: int, turns: Sequence[bytes]) -> int:
        await asyncio.sleep(number / len(requests) * PACED_SECONDS)
        return await _converse(subject, turns)

    tokens = sum(await asyncio.gather(*(converse(*each) for each in enumerate(requests))))
    return (server.cpu_seconds() - before) / tokens


async def _short(subject: Subject, server: Server, requests: Requests) -> float:
    """Return what a turn costs, as fast as they come."""
    before = server.cpu_seconds()
    await asyncio.gather(*(_converse(subject, turns) for turns in requests))
    return (server.cpu_seconds() - before) / sum(map(len, requests))


async def _converse(subject: Subject, turns: Sequence[bytes]) -> int:
    connection = await subject.connect()
    tokens = sum([(await connection.stream(turn)).tokens for turn in turns])
    connection.leave()
    return tokens
