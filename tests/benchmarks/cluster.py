"""What it costs that several machines may answer: our server with files, with Redis, with a store.

Redis is a process of its own, the store is moto in another (so what it takes itself is told, too).
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import httpx
import measures
import psutil
from measures import Load
from subjects import Ours, Server, Subject, free_port, pin, running

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.cluster.servers import BUCKET, KEYS, RedisServer, StoreServer

SHARED = {"MOCHI_SECRET_KEY": "the same on every node of a cluster, and long enough for Django"}
ENDLESS = "bench:1000x20"
WAYS = ("files", "redis", "s3")


@dataclass(frozen=True, slots=True)
class Shared:
    """The servers that nodes share."""

    redis_url: str
    redis: psutil.Process
    store: str

    def variables(self, way: str) -> dict[str, str]:
        """Return the environment of a server that keeps what it has in this way."""
        if way == "files":
            return {}
        found = {**SHARED, "MOCHI_JOURNAL_URL": self.redis_url}
        sessions = f"s3://{BUCKET}/bench?endpoint={self.store}&region=us-east-1"
        return found | ({**KEYS, "MOCHI_SESSIONS_URL": sessions} if way == "s3" else {})


@contextmanager
def shared_servers() -> Iterator[Shared]:
    """Run a Redis and an object store, on the core where the model and the clients are."""
    with TemporaryDirectory(prefix="mochi-bench-") as folder:
        port = free_port()
        redis = RedisServer(Path(folder) / "redis", "--port", str(port))
        store = StoreServer()
        try:
            for process in (redis.process, store.process):
                pin(process.pid, core=1)
            yield Shared(
                f"redis://127.0.0.1:{port}/0",
                psutil.Process(redis.process.pid),
                store.url,
            )
        finally:
            redis.kill()
            store.kill()


@contextmanager
def node(way: str, upstream_url: str, shared: Shared) -> Iterator[tuple[Subject, Server]]:
    """Run our server in one of the ways."""
    with running(Ours, upstream_url, **shared.variables(way)) as (subject, server, _):
        yield subject, server


async def streams(
    way: str, shared: Shared, subject: Subject, server: Server, load: Load
) -> dict[str, float]:
    """What paced streams cost in the web process and in Redis, and the time to a first token."""
    times = await measures.first_tokens(subject, load)
    opened = await measures.open_streams(
        subject, ENDLESS, load.clustered_streams, keep_arrivals=True
    )
    tokens, before = sum(one.reply.tokens for one in opened), _cpu(shared.redis)
    figures = await measures.watch(opened, server, load.watched_seconds)
    spent = _cpu(shared.redis) - before
    tokens = sum(one.reply.tokens for one in opened) - tokens
    found = {
        "cluster_token": figures["cpu_us_per_token"],
        "cluster_jitter": figures["jitter_p99"],
        "cluster_first_token": median(times),
    }
    return found if way == "files" else {**found, "cluster_redis": spent / tokens * 1e6}


def writes(shared: Shared, load: Load) -> list[float]:
    """Seconds that the store itself takes to write a session."""
    times = []
    with httpx.Client(base_url=shared.store, trust_env=False) as http:
        for number in range(load.saves):
            began = time.perf_counter()
            http.put(f"/{BUCKET}/written/{number}", content=b"x" * 2_000).raise_for_status()
            times.append(time.perf_counter() - began)
    return times


async def sealing(upstream_url: str, shared: Shared, load: Load) -> list[float]:
    """Seconds from the death of a node until another one has told the end of its turn."""
    times = []
    with running(Ours, upstream_url, **shared.variables("s3")) as (other, _, _):
        for _ in range(load.deaths):
            with running(Ours, upstream_url, **shared.variables("s3")) as (subject, server, _):
                connection = await subject.connect()
                session = await connection.ask("POST", "/api/v1/sessions", {"model": ENDLESS})
                path = f"/api/v1/chat/{session['session_id']}/stream"
                turn = await subject.connect()
                body = {"message": "Talk.", "detached": True}
                turn.start(turn.request_bytes("POST", path, body))
                assert turn.first_token is not None
                await turn.first_token
                follower = await other.connect()
                end = follower.start(follower.request_bytes("GET", path))
                assert follower.first_token is not None
                await follower.first_token
                _kill(server)
                died = time.perf_counter()
                await end
                times.append(time.perf_counter() - died)
                for each in (connection, turn, follower):
                    each.leave()
    return times


def _kill(server: Server) -> None:
    family = [server.process, *server.process.children(recursive=True)]
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for member in family:
            act(member)
    server.popen.wait()


def _cpu(process: psutil.Process) -> float:
    if sys.platform == "linux":
        return time.clock_gettime((~process.pid << 3) | 2)
    times = process.cpu_times()
    return times.user + times.system
