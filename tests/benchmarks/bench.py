"""The order of things: who is measured when, in rounds, and what of it is kept."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median

import attachments
import cluster
import growth
import measures
import observing
import searching
import storage
import turns
import workers
from measures import Load, percentile
from results import Samples
from subjects import (
    PROTOCOLS,
    Direct,
    Nginx,
    Ours,
    Server,
    Subject,
    Yardstick,
    running,
)

MEASURES = (
    "start", "memory", "ttft", "saturated", "paced", "changing", "departures", "tools", "reattach",
    "waiting", "attachments", "history", "lengths", "crowd", "dialects", "listing", "index",
    "searching", "saving", "cluster", "observing", "workers",
)  # fmt: skip
ON_REQUEST = ("capacity", "turns")
ALONE = {
    "start", "dialects", "listing", "index", "searching", "saving", "turns", "cluster", "observing",
    "workers",
}  # fmt: skip
"""Measures for which no two servers run beside each other."""
ROUND_MEASURES = {"ttft", "saturated", "paced"}
WORKER_SECONDS = 30

Measure = Callable[[Subject, Server], Awaitable[dict[str, float]]]


@dataclass(frozen=True, slots=True)
class Field:
    """Both servers, running, and the upstream behind them."""

    upstream_url: str
    direct: Direct
    ours: Ours
    our_server: Server
    yardstick: Yardstick
    its_server: Server


class Bench:
    """Runs the measures that were asked for.

    Args:
        load: How much each does.
        rounds: How many rounds there are of what is measured in rounds.
        only: The measures.
        say: Told what is measured now.
    """

    def __init__(
        self, load: Load, rounds: int, only: Collection[str], say: Callable[[str], None]
    ) -> None:
        self.load = load
        self.rounds = rounds
        self.only = only
        self.say = say
        self.samples = Samples()

    async def run(self, upstream_url: str) -> None:
        """Measure everything."""
        if self._wants("start"):
            self._start(upstream_url)
        direct = Direct(upstream_url)
        await measures.check(direct)
        if set(self.only) - ALONE:
            with (
                running(Ours, upstream_url) as (ours, our_server, _),
                running(Yardstick, upstream_url) as (yardstick, its_server, _),
            ):
                field = Field(upstream_url, direct, ours, our_server, yardstick, its_server)
                await self._with_servers(field)
        if self._wants("dialects"):
            await self._dialects(upstream_url)
        if self._wants("cluster"):
            await self._cluster(upstream_url)
        if self._wants("observing"):
            await self._observing(upstream_url)
        if self._wants("workers"):
            for found in await workers.two_beside_one(upstream_url, self.load, self.rounds):
                self.samples.note("workers", "ours", found)
        if self._wants("turns"):
            with running(Ours, upstream_url) as (ours, our_server, _):
                await settle(ours, our_server)
                async for point, rss in growth.memory_over_turns(ours, our_server, self.load):
                    self.samples.note("turns", "ours", {f"memory@{point}": rss})
        if self._wants("listing"):
            self._listing()
        if self._wants("index"):
            self._index()
        if self._wants("searching"):
            figures = searching.searching(max(self.load.stored))
            self.samples.note("searching", "ours", {f"search_{k}": v for k, v in figures.items()})
        if self._wants("saving"):
            self._saving()

    def _wants(self, measure: str) -> bool:
        if measure in self.only:
            self.say(measure)
        return measure in self.only

    def _start(self, upstream_url: str) -> None:
        for _ in range(self.rounds + 1):
            for kind in (Ours, Yardstick):
                with running(kind, upstream_url) as (subject, _, seconds):
                    self.samples.note("start", subject.name, {"start": seconds})

    async def _with_servers(self, field: Field) -> None:
        await settle(field.ours, field.our_server)
        await measures.check(field.ours)
        await measures.check(field.yardstick)
        if self._wants("memory"):
            await self._memory(field)
        for number in range(self.rounds if ROUND_MEASURES & set(self.only) else 0):
            self.say(f"round {number + 1} of {self.rounds}")
            await self._round(field)
        if self._wants("changing"):
            changing = partial(measures.changing_streams, load=self.load)
            await self._beside(field, "changing", changing)
        if self._wants("departures"):
            await self._beside(field, "departures", self._departures(field.upstream_url))
        if self._wants("tools"):
            figures = await turns.tool_calls(field.ours, self.load)
            self.samples.note("tools", "ours", figures)
        if self._wants("reattach"):
            figures = await turns.reattachment(field.ours, self.load)
            self.samples.note("reattach", "ours", figures)
        if self._wants("waiting"):
            await self._waiting(field)
        if self._wants("attachments"):
            figures = await attachments.upload(field.ours, field.our_server, self.load)
            figures |= await attachments.others_wait(field.ours, self.load)
            self.samples.note("attachments", "ours", figures)
        if self._wants("history"):
            for messages in self.load.histories:
                figures = await growth.after_history(
                    field.ours, field.our_server, messages, self.load
                )
                self._note_point("history", "ours", messages, figures)
        if self._wants("lengths"):
            with field.our_server.quiet():
                for messages in self.load.long_lengths:
                    figures = await growth.by_length(
                        field.ours, field.our_server, messages, self.load
                    )
                    self._note_point("lengths", "ours", messages, figures)
        with ExitStack() as servers:
            nginx = None
            if Nginx.is_installed() and {"crowd", "capacity"} & set(self.only):
                nginx = servers.enter_context(running(Nginx, field.upstream_url))[:2]
            if self._wants("crowd"):
                await self._crowd(field, nginx)
            if self._wants("capacity"):
                await self._beside(field, "capacity", self._capacity, nginx=nginx)

    async def _memory(self, field: Field) -> None:
        held = partial(measures.held_streams, load=self.load)
        await self._beside(field, "memory", held)
        beside = {
            "worker_memory": field.our_server.memory_of("worker"),
            "hosts_memory": field.our_server.memory_of("hosts"),
        }
        self.samples.note("memory", "ours", beside)

    async def _round(self, field: Field) -> None:
        if "ttft" in self.only:
            base = await measures.first_tokens(field.direct, self.load)

            async def first_tokens(subject: Subject, _: Server) -> dict[str, float]:
                times = await measures.first_tokens(subject, self.load)
                new = await measures.first_tokens(subject, self.load, on_the_fly=True)
                return {
                    "ttft_p50": median(times) - median(base),
                    "ttft_p99": percentile(times, 99) - median(base),
                    "ttft_new_p50": median(new) - median(base),
                }

            await self._beside(field, "ttft", first_tokens)
        if "saturated" in self.only:
            await self._beside(field, "saturated", self._saturated)
            await self._saturated_upstream(field)
        if "paced" in self.only:
            await self._beside(field, "paced", self._paced)

    async def _saturated(self, subject: Subject, server: Server) -> dict[str, float]:
        figures = await measures.saturated(subject, server, self.load)
        return {
            "saturated": figures["cpu_us_per_token"],
            "throughput": figures["tokens_per_second"],
        }

    async def _saturated_upstream(self, field: Field) -> None:
        before = await measures.upstream_cpu(field.upstream_url)
        with field.our_server.quiet():
            figures = await measures.saturated(field.direct, None, self.load)
        spent = await measures.upstream_cpu(field.upstream_url) - before
        tokens = self.load.connections * self.load.replies * 256
        of_harness = {
            "client_cost": figures["cpu_us_per_token"],
            "upstream_cost": spent / tokens * 1e6,
            "throughput": figures["tokens_per_second"],
        }
        self.samples.note("saturated", "direct", of_harness)

    async def _paced(self, subject: Subject, server: Server) -> dict[str, float]:
        figures = await measures.paced(
            subject, server, self.load.paced_streams, self.load.paced_seconds
        )
        return {"paced": figures["cpu_us_per_token"], "jitter": figures["jitter_p99"]}

    def _departures(self, upstream_url: str) -> Measure:
        async def leave(subject: Subject, _: Server) -> dict[str, float]:
            times = await measures.departures(subject, upstream_url, self.load)
            return {"departure": median(times), "departure_max": max(times)}

        return leave

    async def _capacity(self, subject: Subject, _: Server) -> dict[str, float]:
        return {"capacity": await measures.capacity(subject, self.load)}

    async def _waiting(self, field: Field) -> None:
        waits = {}
        for messages in self.load.lengths:
            figures = await turns.others_wait(field.ours, field.our_server, messages, self.load)
            self._note_point("waiting", "ours", messages, figures)
            waits[messages] = figures["wait"]
        least = waits[min(waits)]
        for messages in sorted(waits)[1:]:
            self._note_point("waiting", "ours", messages, {"wait_more": waits[messages] - least})

    async def _crowd(self, field: Field, nginx: tuple[Subject, Server] | None) -> None:
        for streams in self.load.crowds:

            async def crowd(
                subject: Subject, server: Server, streams: int = streams
            ) -> dict[str, float]:
                try:
                    figures = await measures.paced(
                        subject, server, streams, self.load.watched_seconds
                    )
                except measures.NotHeldError as error:
                    self.say(str(error))
                    return {}
                return {
                    f"crowd_token@{streams}": figures["cpu_us_per_token"],
                    f"crowd_jitter@{streams}": figures["jitter_p99"],
                }

            await self._beside(
                field, "crowd", crowd, nginx=nginx, without_r=streams > self.load.most_of_r
            )

    async def _dialects(self, upstream_url: str) -> None:
        """Measure the streams of each protocol on a server of its own, whose memory is fresh.

        The servers take turns: a machine whose speed changes meanwhile changes it for all.
        """
        with ExitStack() as servers:
            pairs: list[tuple[Subject, Server]] = []
            for kind in (*PROTOCOLS, Yardstick):
                subject, server, _ = servers.enter_context(running(kind, upstream_url))
                if isinstance(subject, Ours):
                    await settle(subject, server)
                await measures.check(subject)
                held = await measures.held_streams(subject, server, self.load)
                memory = {"dialect_memory": held["rss_per_stream"]}
                self.samples.note("dialects", subject.name, memory)
                pairs.append((subject, server))
            for number in range(self.rounds):
                self.say(f"round {number + 1} of {self.rounds}")
                for subject, server in pairs:
                    figures = await self._dialect(subject, server)
                    self.samples.note("dialects", subject.name, figures)

    async def _dialect(self, subject: Subject, server: Server) -> dict[str, float]:
        times = await measures.first_tokens(subject, self.load, on_the_fly=True)
        cost = (await measures.saturated(subject, server, self.load))["cpu_us_per_token"]
        return {"dialect_first_token": median(times), "dialect_token": cost}

    async def _cluster(self, upstream_url: str) -> None:
        """Measure our server with files, with Redis, and with a store; they take turns."""
        with cluster.shared_servers() as shared:
            with ExitStack() as servers:
                pairs = [
                    (way, *servers.enter_context(cluster.node(way, upstream_url, shared)))
                    for way in cluster.WAYS
                ]
                for number in range(self.rounds):
                    self.say(f"round {number + 1} of {self.rounds}")
                    for way, subject, server in pairs:
                        figures = await cluster.streams(way, shared, subject, server, self.load)
                        self.samples.note("cluster", way, figures)
            writes = cluster.writes(shared, self.load)
            self.samples.note("cluster", "s3", {"cluster_write": median(writes)})
            times = await cluster.sealing(upstream_url, shared, self.load)
            self.samples.note("cluster", "s3", {"cluster_seal": median(times)})

    async def _observing(self, upstream_url: str) -> None:
        """Measure our server plain, with metrics and with traces, all at the same time."""
        with ExitStack() as servers:
            watched: dict[str, tuple[Subject, Server]] = {}
            for name in observing.WATCHED:
                variables = observing.variables(name, upstream_url)
                subject, server, _ = servers.enter_context(running(Ours, upstream_url, **variables))
                await settle(subject, server)
                watched[name] = subject, server
            await observing.compare(watched, observing.FIRST)
            for number in range(self.rounds):
                self.say(f"round {number + 1} of {self.rounds}")
                found = await observing.compare(watched, self.load)
                for name, figures in found.items():
                    self.samples.note("observing", name, figures)

    def _listing(self) -> None:
        for sessions in sorted(self.load.stored):
            figures = storage.listing(sessions)
            plain = figures.pop("json")
            named = {f"listing_{name}@{sessions}": value for name, value in figures.items()}
            self.samples.note("listing", "ours", named)
            self.samples.note("listing", "R", dict.fromkeys(named, plain))
        states = {"listing_states": storage.listing_with_states(sessions, 1_000, 1_000)}
        self.samples.note("listing", "ours", states)
        self.samples.note("listing", "R", dict.fromkeys(states, plain))

    def _index(self) -> None:
        if shutil.which("redis-server") is None:
            self.say("no index without redis-server")
            return
        sessions = max(self.load.stored)
        ours, files = storage.listing_of_objects(sessions)
        for who, figures in (("ours", ours), ("R", files)):
            named = {f"index_{name}@{sessions}": value for name, value in figures.items()}
            self.samples.note("index", who, named)

    def _saving(self) -> None:
        for messages in self.load.lengths:
            figures = storage.saving(messages, self.load)
            self.samples.note("saving", "ours", {f"saving@{messages}": figures["saving"]})
            self.samples.note("saving", "R", {f"saving@{messages}": figures["json"]})

    async def _beside(
        self,
        field: Field,
        measure: str,
        action: Measure,
        *,
        nginx: tuple[Subject, Server] | None = None,
        without_r: bool = False,
    ) -> None:
        """Measure ours, then others while everything of ours is halted that works by itself."""
        pairs: list[tuple[Subject, Server]] = [(field.ours, field.our_server)]
        if not without_r:
            pairs.append((field.yardstick, field.its_server))
        if nginx is not None:
            pairs.append(nginx)
        for subject, server in pairs:
            with nullcontext() if subject is field.ours else field.our_server.quiet():
                self.samples.note(measure, subject.name, await action(subject, server))

    def _note_point(self, measure: str, who: str, point: int, figures: dict[str, float]) -> None:
        prefix = "" if measure == "waiting" else f"{measure}_"
        named = {f"{prefix}{name}@{point}": value for name, value in figures.items()}
        self.samples.note(measure, who, named)


async def settle(ours: Ours, server: Server) -> None:
    """Wait until all of ours is up: the background worker, and a host that has run the tool."""
    connection = await ours.connect()
    async with asyncio.timeout(WORKER_SECONDS):
        while not (await connection.ask("GET", ours.health))["worker_alive"]:
            await asyncio.sleep(0.1)
        tools = {"tools": ["echo"], "execution_policy": "never_confirm"}
        body = {"model": "bench-tool:16x0", "tool_settings": tools}
        session = await connection.ask("POST", "/api/v1/sessions", body)
        await connection.stream(ours.turn(connection, session["session_id"]))
    connection.leave()
    for kind in ("worker", "hosts"):
        assert server.helpers(kind), f"no process of the {kind} is there"
