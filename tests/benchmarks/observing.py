"""What it costs to be watched: our server plain, with metrics, with traces that are exported."""

import asyncio
from collections.abc import Mapping, Sequence

from client import Connection
from measures import Load
from subjects import Server, Subject

WATCHED: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "metrics": {"MOCHI_METRICS": "true"},
    "traces": {"MOCHI_TRACES": "true"},
}
"""What is switched on, by the name of the column."""
MODEL = "bench:100x20"
TURNS = 2


def variables(name: str, upstream_url: str) -> dict[str, str]:
    """Return the environment of a server; the scripted model server takes its spans, too."""
    return {**WATCHED[name], "OTEL_EXPORTER_OTLP_ENDPOINT": upstream_url}


async def turns(subject: Subject, server: Server, load: Load) -> dict[str, float]:
    """Have paced streams of 100 tokens, each twice; what turns cost is in the cost of a token."""
    connections = [await subject.connect() for _ in range(load.paced_streams)]
    requests = [await subject.prepare(one, MODEL, TURNS) for one in connections]
    before = server.cpu_seconds()

    async def converse(connection: Connection, turns: Sequence[bytes]) -> int:
        return sum([(await connection.stream(turn)).tokens for turn in turns])

    tokens = sum(await asyncio.gather(*map(converse, connections, requests)))
    spent = server.cpu_seconds() - before
    for connection in connections:
        connection.leave()
    return {"observed_token": spent / tokens * 1e6}
