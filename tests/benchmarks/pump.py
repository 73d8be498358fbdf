"""What it costs to journal an event: in the process that says it, and in Redis. Without a server.

    uv run python tests/benchmarks/pump.py

Streams say events at a pace, in bursts as tokens come from a model; the same is done once without
a journal, and that is taken off. Beside it: the journal in files.
"""

import asyncio
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import psutil
import uvloop

sys.path.insert(0, str(Path(__file__).parents[2]))

from chat.storage.files.journals import FileTurnJournal
from chat.storage.journal import JournalWriter, line
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.hub import Hub
from cluster_app.redis.journals import RedisTurnJournal
from tests.contract.elsewhere import PidOwners
from tests.redis_server import running_redis

STREAMS = 1000
PACES = (1_000, 4_000, 10_000, 20_000)
SECONDS = 3.0
BURST_SECONDS = 0.002
DATA = '{"content":" some text of a token","role":"assistant"}'


class Opens(Protocol):
    """A journal, as far as this goes."""

    def open(self, session_id: str, turn_id: str, *, owner: str) -> JournalWriter:
        """Begin a journal."""


async def said(writers: list[JournalWriter], pace: int, say: Callable[..., None]) -> int:
    """Say events for a while; return how many."""
    began, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < SECONDS:
        while count < passed * pace:
            count += 1
            say(writers[count % len(writers)], line(count, "content_delta", DATA))
        await asyncio.sleep(BURST_SECONDS)
    return count


def nothing(writer: JournalWriter, text: str) -> None:
    """Journal nothing."""


def append(writer: JournalWriter, text: str) -> None:
    """Journal it."""
    writer.append(text)


async def cost(journal: Opens, pace: int, redis: psutil.Process | None) -> tuple[float, float]:
    """Return the microseconds of an event in this process, and in Redis."""
    writers = [
        await asyncio.to_thread(journal.open, f"{number:010x}", secrets.token_hex(10), owner="me")
        for number in range(STREAMS)
    ]
    began = time.process_time()
    count = await said(writers, pace, nothing)
    without = (time.process_time() - began) / count
    append(writers[0], line(1, "content_delta", DATA))
    await writers[0].flushed()
    began, redis_began = time.process_time(), _cpu(redis)
    count = await said(writers, pace, append)
    for writer in writers:
        await writer.flushed()
    spent = (time.process_time() - began) / count - without
    redis_spent = (_cpu(redis) - redis_began) / count
    for writer in writers:
        writer.close()
    await asyncio.sleep(0.2)
    return spent * 1e6, redis_spent * 1e6


def _cpu(process: psutil.Process | None) -> float:
    return 0.0 if process is None else sum(process.cpu_times()[:2])


async def main() -> None:
    """Measure, and print a line for each pace."""
    with running_redis("--appendonly", "no") as url, TemporaryDirectory() as folder:
        connection = RedisConnection(url)
        information: dict[str, int] = await asyncio.to_thread(connection.client.info, "server")
        redis = psutil.Process(information["process_id"])
        in_redis = RedisTurnJournal(
            connection, owners=PidOwners(), hub=Hub(connection), retention_seconds=60
        )
        print("events/s   files, us   process, us   Redis, us")
        for pace in PACES:
            files, _ = await cost(FileTurnJournal(Path(folder)), pace, None)
            process, server = await cost(in_redis, pace, redis)
            print(f"{pace:8,d} {files:11.1f} {process:13.1f} {server:11.1f}")
        in_redis.close()


if __name__ == "__main__":
    uvloop.run(main())
