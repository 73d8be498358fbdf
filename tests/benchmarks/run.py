"""Run our server beside the yardstick R on the same work, and print the ratios.

    uv run --group bench python tests/benchmarks/run.py [--quick] [--only saturated,paced]

Asserts nothing about speed: figures differ from machine to machine, only the ratios of one run
hold. With ``TMPDIR=/dev/shm`` the disk's own time is left out: compare both when other programs
use the disk. Rounds are interleaved and the medians are shown. Servers run on core 0, the upstream
and the load client on core 1, where the system can pin. Ours saves sessions and keeps its journal,
R keeps nothing.
"""

import argparse
import asyncio
import os
import resource
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

import measures
import uvloop
from measures import Load, percentile
from rich.console import Console
from rich.table import Table
from subjects import Direct, Ours, Server, Subject, Yardstick, pin, running, upstream

MEASURES = ("start", "memory", "ttft", "saturated", "paced", "departures", "listing")
ON_REQUEST = ("capacity",)
R_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; values are ours and R's, in ``unit``."""

    figure: str
    unit: str
    ours: float | None
    yardstick: float | None = None
    must: str = ""
    aim: str = ""

    @property
    def ratio(self) -> str:
        """Ours in multiples of R."""
        if not self.ours or not self.yardstick:
            return ""
        ratio = self.ours / self.yardstick
        return f"{ratio:.2f} R" if ratio >= 1 / 2 else f"R / {1 / ratio:.1f}"


FIGURES = (
    ("CPU per token, saturated", "us", "saturated", 1, "R / 7", "R / 18"),
    ("CPU per token, paced", "us", "paced", 1, "R / 2", "R / 3"),
    ("added time to first token, p50", "ms", "ttft_p50", 1e3, "0.65 R", "0.3 R"),
    ("added time to first token, p99", "ms", "ttft_p99", 1e3, "", ""),
    ("tokens a second, saturated", "k", "throughput", 1e-3, "", ""),
    ("jitter p99, paced", "ms", "jitter", 1e3, "", ""),
    ("streams of 20 tokens/s held", "", "capacity", 1, "5 R", "13 R"),
    ("memory per open stream", "KiB", "rss_per_stream", 1 / 1024, "64 KiB", "32 KiB"),
    ("threads, idle", "", "idle_threads", 1, "", ""),
    ("threads, streams open", "", "threads", 1, "as idle", ""),
    ("idle memory", "MiB", "idle_rss", 1 / 2**20, "110 MiB", "90 MiB"),
    ("start to first health", "ms", "start", 1e3, "2.5 R", "1.2 R"),
    ("upstream closed after leaving, median", "ms", "departure", 1e3, "", ""),
    ("upstream closed after leaving, slowest", "ms", "departure_max", 1e3, "500 ms", ""),
    ("listing all sessions, warm (R: json)", "ms", "listing", 1e3, "R / 8", "R / 18"),
)


class Bench:
    """Collects the rounds of every measure and turns them into rows."""

    def __init__(self, load: Load, rounds: int, only: set[str]) -> None:
        self.load = load
        self.rounds = rounds
        self.only = only
        self.samples: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.console = Console(width=None if sys.stdout.isatty() else 110)

    def note(self, subject: Subject, **figures: float) -> None:
        """Keep the figures of one round."""
        for figure, value in figures.items():
            self.samples[figure, subject.name].append(value)

    def of(self, figure: str, name: str) -> float | None:
        """Return the median of a figure, or None where it was not measured."""
        values = self.samples.get((figure, name))
        return median(values) if values else None

    async def run(self, upstream_url: str) -> None:
        """Measure everything that was asked for."""
        if "start" in self.only:
            for _ in range(self.rounds + 2):
                for kind in (Ours, Yardstick):
                    with running(kind, upstream_url) as (subject, _, seconds):
                        self.note(subject, start=seconds)
        direct = Direct(upstream_url)
        await measures.check(direct)
        with (
            running(Ours, upstream_url) as (ours, our_server, _),
            running(Yardstick, upstream_url) as (yardstick, its_server, _),
        ):
            pairs = [(ours, our_server), (yardstick, its_server)]
            for subject, server in pairs:
                await measures.check(subject)
                if "memory" in self.only:
                    self.note(subject, **await measures.held_streams(subject, server, self.load))
            for _ in range(self.rounds):
                await self._round(upstream_url, direct, pairs)
            if "departures" in self.only:
                for subject, _ in pairs:
                    times = await measures.departures(subject, upstream_url, self.load)
                    self.note(subject, departure=median(times), departure_max=max(times))
            if "capacity" in self.only:
                for subject, _ in pairs:
                    self.note(subject, capacity=await measures.capacity(subject, self.load))
        if "listing" in self.only:
            figures = measures.listing(self.load)
            self.samples["listing", "ours"] = [figures["warm"]]
            self.samples["listing", "R"] = [figures["json"]]

    async def _round(
        self, upstream_url: str, direct: Subject, pairs: list[tuple[Subject, Server]]
    ) -> None:
        if "ttft" in self.only:
            base = await measures.first_tokens(direct, self.load)
            self.note(direct, ttft_p50=median(base), ttft_p99=percentile(base, 99))
            for subject, _ in pairs:
                times = await measures.first_tokens(subject, self.load)
                self.note(
                    subject,
                    ttft_p50=median(times) - median(base),
                    ttft_p99=percentile(times, 99) - median(base),
                )
        if "saturated" in self.only:
            for subject, server in pairs:
                share = R_SHARE if isinstance(subject, Yardstick) else 1
                figures = await measures.saturated(subject, server, self.load, share)
                self.note(
                    subject,
                    saturated=figures["cpu_us_per_token"],
                    throughput=figures["tokens_per_second"],
                )
            before = await measures.upstream_cpu(upstream_url)
            figures = await measures.saturated(direct, None, self.load, 1)
            spent = await measures.upstream_cpu(upstream_url) - before
            tokens = self.load.connections * self.load.replies * 256
            self.note(
                direct,
                client_cost=figures["cpu_us_per_token"],
                upstream_cost=spent / tokens * 1e6,
                throughput=figures["tokens_per_second"],
            )
        if "paced" in self.only:
            for subject, server in pairs:
                figures = await measures.paced(subject, server, self.load)
                self.note(subject, paced=figures["cpu_us_per_token"], jitter=figures["jitter_p99"])

    def rows(self) -> list[Row]:
        """Return the table's lines; the bounds are those of the design."""
        return [
            Row(figure, unit, _scaled(ours, factor), _scaled(self.of(key, "R"), factor), must, aim)
            for figure, unit, key, factor, must, aim in FIGURES
            if (ours := self.of(key, "ours")) is not None
        ]

    def print(self) -> None:
        """Print the table, and what the harness itself costs."""
        table = Table(title="mochi-server beside R (FastAPI + sse-starlette + ollama.AsyncClient)")
        table.add_column("figure")
        for heading in ("ours", "R", "ratio", "must", "aim"):
            table.add_column(heading, justify="right")
        for row in self.rows():
            table.add_row(
                row.figure,
                _number(row.ours, row.unit),
                _number(row.yardstick, row.unit),
                row.ratio,
                row.must,
                row.aim,
            )
        self.console.print(table)
        client, source = self.of("client_cost", "direct"), self.of("upstream_cost", "direct")
        if client is not None and source is not None:
            self.console.print(
                f"The harness: upstream {source:.2f} us/token, client {client:.2f} us/token, "
                f"{(self.of('throughput', 'direct') or 0) / 1e3:,.0f} k tokens/s without a server."
            )


def _raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if value >= 100 or not unit else 2
    return f"{value:,.{digits}f} {unit}".strip()


def main() -> None:
    """Parse the flags, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round of less work")
    parser.add_argument(
        "--only",
        default=",".join(MEASURES),
        help="some of: %(default)s (all of them, by default); capacity (takes minutes)",
    )
    flags = parser.parse_args()
    only = set(flags.only.split(","))
    if unknown := only - {*MEASURES, *ON_REQUEST}:
        parser.error(f"unknown measures: {', '.join(sorted(unknown))}")
    load = Load()
    if flags.quick:
        load = Load(replies=24, first_tokens=100, paced_seconds=3, open_streams=100, departures=5)
    _raise_file_limit()
    bench = Bench(load, rounds=1 if flags.quick else 3, only=only)
    pin(os.getpid(), core=1)
    began = time.monotonic()
    with upstream() as upstream_url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bench.run(upstream_url))
    bench.print()
    bench.console.print(f"Took {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
