"""Run our server beside the yardstick R on the same work, and show the ratios.

    uv run --group bench python tests/benchmarks/run.py [--quick] [--only saturated,paced] [--write]

Asserts nothing about speed: figures differ from machine to machine, only the ratios of one run
hold. With ``TMPDIR=/dev/shm`` the disk's own time is left out: compare both when other programs
use the disk. Rounds are interleaved and the medians are shown. Servers run on core 0, the upstream
and the load client on core 1, where the system can pin. Ours runs as it comes: it saves sessions,
keeps its journal, has tools and a background worker. R keeps nothing.
"""

import argparse
import asyncio
import os
import resource
import sys
import time
from datetime import UTC, datetime

import uvloop
from bench import MEASURES, ON_REQUEST, Bench
from figures import COMPARISONS, CURVES, HEADINGS, harness, number, rows, values
from measures import Load
from report import PAGE, page
from results import Results, load, save
from rich.console import Console
from rich.table import Table
from subjects import pin, upstream

QUICK = Load(
    replies=24,
    first_tokens=100,
    paced_seconds=3,
    changing_streams=50,
    changing_replies=1,
    departures=5,
    stored=(100, 1_000, 10_000),
    saves=5,
    waits=5,
    uploads=3,
    tool_turns=25,
    reattachments=3,
    historians=4,
    long_turns=5,
    crowds=(10, 50, 200),
    most_of_r=50,
    watched_seconds=2,
    turns=2_000,
    clustered_streams=100,
    deaths=1,
    observed_seconds=3,
    observed_turns=1,
    short_turns=50,
)


def show(results: Results, console: Console) -> None:
    """Print the table, the curves, and what the harness itself costs."""
    table = Table(title="mochi-server beside R (FastAPI + sse-starlette + ollama.AsyncClient)")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for row in rows(results):
        table.add_row(*row.cells)
    console.print(table)
    for comparison in COMPARISONS:
        if found := comparison.rows(results):
            table = Table(title=comparison.title)
            for heading in comparison.headings:
                table.add_column(heading, justify="left" if heading == "figure" else "right")
            for line in found:
                table.add_row(*line)
            console.print(table)
    for curve in CURVES:
        if found := values(curve, results):
            table = Table(title=curve.title)
            for heading in (curve.points, *(line.heading for line in curve.lines)):
                table.add_column(heading, justify="right")
            for point, at in found.items():
                table.add_row(f"{point:,}", *map(number, at))
            console.print(table)
    console.print(harness(results))


def measured(flags: argparse.Namespace, console: Console) -> Results:
    """Run the measures and return their results."""
    began = time.monotonic()

    def say(text: str) -> None:
        console.print(f"{time.monotonic() - began:4.0f} s  {text}", style="dim")

    bench = Bench(
        QUICK if flags.quick else Load(),
        rounds=1 if flags.quick else 3,
        only=flags.only.split(","),
        say=say,
    )
    pin(os.getpid(), core=1)
    with upstream() as upstream_url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bench.run(upstream_url))
    say("done")
    return Results(bench.samples.medians(quick=flags.quick, at=datetime.now(UTC)))


def main() -> None:
    """Parse the flags, measure, show, and write if asked to."""
    flags = _flags()
    console = Console(width=None if sys.stdout.isatty() else 110)
    if not flags.render:
        _raise_file_limit()
        new = measured(flags, console)
        show(new, console)
    if flags.write or flags.render:
        results = load() if flags.render else load().with_measures(new.measures)
        save(results)
        PAGE.write_text(page(results), "utf-8")
        console.print(f"Wrote {PAGE.relative_to(PAGE.parents[1])}.")


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round of less work")
    parser.add_argument(
        "--only",
        default=",".join(MEASURES),
        help=f"some of: %(default)s (all of them, by default); {', '.join(ON_REQUEST)} (they "
        "take minutes)",
    )
    parser.add_argument(
        "--write",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="keep the results, beside those of measures that were not made now, and write "
        "docs/performance.md",
    )
    parser.add_argument(
        "--render", action="store_true", help="measure nothing, only write the page once more"
    )
    flags = parser.parse_args()
    if unknown := set(flags.only.split(",")) - {*MEASURES, *ON_REQUEST}:
        parser.error(f"unknown measures: {', '.join(sorted(unknown))}")
    return flags


def _raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))


if __name__ == "__main__":
    main()
