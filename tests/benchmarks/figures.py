"""What is shown: the lines of the table and the curves, and how numbers are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from results import Results


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table.

    Attributes:
        label: What it says.
        key: The figure's name in the results.
        unit: What it is shown in.
        factor: How often the unit goes into the figure's own.
        must: The bound that the design sets.
        aim: What it would like.
    """

    label: str
    key: str
    unit: str = ""
    factor: float = 1
    must: str = ""
    aim: str = ""


FIGURES = (
    Figure("CPU per token, saturated", "saturated", "us", 1, "R / 7", "R / 18"),
    Figure("CPU per token, paced", "paced", "us", 1, "R / 3"),
    Figure("added time to first token, p50", "ttft_p50", "ms", 1e3, "0.75 R", "0.3 R"),
    Figure("added time to first token, p99", "ttft_p99", "ms", 1e3),
    Figure("the same in a new session, p50", "ttft_new_p50", "ms", 1e3, "1 R"),
    Figure("tokens a second, saturated", "throughput", "k", 1e-3),
    Figure("jitter p99, 50 paced streams", "jitter", "ms", 1e3),
    Figure("CPU per token, 150 streams that come and go", "changing", "us"),
    Figure("jitter p99, 150 streams that come and go", "changing_p99", "ms", 1e3),
    Figure("jitter p99.9 of these", "changing_p999", "ms", 1e3),
    Figure("streams of 20 tokens/s held", "capacity", "", 1, "8 R", "13 R"),
    Figure("streams held, two workers beside one", "workers_gain", "", 1, "1.8"),
    Figure("CPU per token, two workers beside one", "workers_token"),
    Figure("CPU of the busier worker, of both", "workers_share"),
    Figure("memory per open stream", "rss_per_stream", "KiB", 1 / 1024, "64 KiB", "32 KiB"),
    Figure("threads, idle", "idle_threads"),
    Figure("threads, streams open", "threads", "", 1, "as idle"),
    Figure("idle memory, web worker", "idle_rss", "MiB", 1 / 2**20, "100 MiB", "90 MiB"),
    Figure("memory with 250 streams, web worker", "open_rss", "MiB", 1 / 2**20),
    Figure("memory beside it: background worker", "worker_memory", "MiB", 1 / 2**20),
    Figure("memory beside it: tool hosts", "hosts_memory", "MiB", 1 / 2**20),
    Figure("start to first health", "start", "ms", 1e3, "2 R", "1.2 R"),
    Figure("upstream closed after leaving, median", "departure", "ms", 1e3),
    Figure("upstream closed after leaving, slowest", "departure_max", "ms", 1e3, "500 ms"),
    Figure("listing 100 sessions, warm (R: json)", "listing_warm@100", "ms", 1e3),
    Figure("listing 1,000 sessions, warm (R: json)", "listing_warm@1000", "ms", 1e3),
    Figure(
        "listing 10,000 sessions, warm (R: json)", "listing_warm@10000", "ms", 1e3, "R / 8",
        "R / 18",
    ),
    Figure("listing 10,000, one changed (R: json)", "listing_changed@10000", "ms", 1e3),
    Figure(
        "listing 10,000, 1,000 running and 1,000 asking (R: json)", "listing_states", "ms", 1e3,
        "R / 8",
    ),
    Figure("searching 10,000 sessions, a rare word", "search_rare", "ms", 1e3, "60 ms"),
    Figure("searching 10,000 sessions, words of all messages", "search_common", "ms", 1e3, "60 ms"),
    Figure("searching 10,000 sessions, one saved just now", "search_changed", "ms", 1e3, "60 ms"),
    Figure("searching 10,000 sessions without an index", "search_scan", "ms", 1e3),
    Figure("messages a second for a new index", "search_fill", "k", 1e-3, "5 k"),
    Figure(
        "listing 10,000 of a store, warm (R: files)", "index_warm@10000", "ms", 1e3, "1.5 R",
    ),
    Figure("listing 10,000 of a store, one changed", "index_changed@10000", "ms", 1e3),
    Figure("listing 10,000 of a store, first in a process", "index_first@10000", "ms", 1e3),
    Figure("noting a write in the index", "index_write@10000", "ms", 1e3),
    Figure("making an index of 1,000 objects, with moto", "index_made@10000", "s"),
    Figure("saving to 10 messages (R: json)", "saving@10", "ms", 1e3),
    Figure("saving to 100 messages (R: json)", "saving@100", "ms", 1e3),
    Figure("saving to 1,000 messages (R: json)", "saving@1000", "ms", 1e3),
    Figure("saving to 5,000 messages (R: json)", "saving@5000", "ms", 1e3),
    Figure("others wait longer: 1,000 messages", "wait_more@1000", "ms", 1e3, "15 ms"),
    Figure("others wait longer: 5,000 messages", "wait_more@5000", "ms", 1e3, "15 ms"),
    Figure("others wait, turn with 20 images of 1 MiB", "images_wait", "ms", 1e3, "50 ms"),
    Figure("others wait, the same turn without", "plain_wait", "ms", 1e3),
    Figure("upload of 20 MiB, memory added", "upload_memory", "MiB", 1 / 2**20, "2 MiB"),
    Figure("MiB uploaded a second", "upload_rate", "", 1 / 2**20),
    Figure("tool call, added to its turn", "tool_call", "ms", 1e3, "3 ms"),
    Figure("turn with a tool call, two rounds", "tool_turn", "ms", 1e3),
    Figure("turn of 5,000 events, re-attached", "reattach", "ms", 1e3),
    Figure("events a second, re-attached", "reattach_rate", "k", 1e-3),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of several subjects beside each other.

    Attributes:
        name: What the template calls it.
        title: What the table says above it.
        columns: The headings of the columns, by the subjects' names in the results.
        figures: The lines.
    """

    name: str
    title: str
    columns: Mapping[str, str]
    figures: Sequence[Figure]

    @property
    def headings(self) -> tuple[str, ...]:
        """The first line."""
        return ("figure", *self.columns.values(), "must")

    def rows(self, results: Results) -> list[list[str]]:
        """Return the lines of what was measured, as text."""
        found = []
        for figure in self.figures:
            measured = [results.of(figure.key, who) for who in self.columns]
            if any(value is not None for value in measured):
                cells = [number(_scaled(value, figure.factor), figure.unit) for value in measured]
                found.append([figure.label, *cells, figure.must])
        return found


COMPARISONS = (
    Comparison(
        "dialects",
        "Streams of other protocols",
        {"ours": "native", "chat completions": "chat completions", "responses": "responses",
         "ollama": "Ollama's", "R": "R"},
        (
            Figure("CPU per token, saturated", "dialect_token", "us", 1, "1.25 native"),
            Figure("time to first token in a new session, p50", "dialect_first_token", "ms", 1e3,
                   "native + 0.3 ms"),
            Figure("memory per open stream", "dialect_memory", "KiB", 1 / 1024, "1.2 native"),
        ),
    ),
    Comparison(
        "observing",
        "Metrics and traces",
        {"plain": "neither", "metrics": "metrics", "traces": "traces"},
        (
            Figure("CPU per token while 50 paced streams run", "observed_token", "us", 1e6,
                   "neither + 1 us; traces: 1.03 neither"),
            Figure("the same with turns of 100 tokens", "observed_paced_turn", "us", 1e6,
                   "traces: 1.03 neither"),
            Figure("CPU per turn of 16 tokens at full speed", "observed_turn", "us", 1e6,
                   "metrics: neither + 20 us"),
        ),
    ),
    Comparison(
        "held",
        "Open streams",
        {"ours": "ours", "R": "R", "nginx": "nginx"},
        (Figure("streams of 20 tokens/s held", "capacity", "", 1, "8 R, nginx / 2"),),
    ),
    Comparison(
        "cluster",
        "Several machines",
        {"files": "files", "redis": "Redis", "s3": "Redis and a store"},
        (
            Figure("CPU per token of the web process, paced", "cluster_token", "us", 1,
                   "1.3 files"),
            Figure("CPU per event of Redis", "cluster_redis", "us", 1, "4 us"),
            Figure("jitter p99", "cluster_jitter", "ms", 1e3),
            Figure("time to first token, p50", "cluster_first_token", "ms", 1e3,
                   "files + 1 write + 3 ms"),
            Figure("a write of the store, p50", "cluster_write", "ms", 1e3),
            Figure("a node is killed, its turn has ended", "cluster_seal", "s", 1, "lease + 2 s"),
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; values are ours and R's, in the figure's unit."""

    figure: Figure
    ours: float
    yardstick: float | None = None

    @property
    def ratio(self) -> str:
        """Ours in multiples of R."""
        return ratio(self.ours, self.yardstick)

    @property
    def cells(self) -> list[str]:
        """The line as text."""
        figure = self.figure
        return [
            figure.label,
            number(self.ours, figure.unit),
            number(self.yardstick, figure.unit),
            self.ratio,
            figure.must,
            figure.aim,
        ]


HEADINGS = ("figure", "ours", "R", "ratio", "must", "aim")


def rows(results: Results) -> list[Row]:
    """Return the lines of what was measured."""
    return [
        Row(figure, ours * figure.factor, _scaled(results.of(figure.key, "R"), figure.factor))
        for figure in FIGURES
        if (ours := results.of(figure.key)) is not None
    ]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a curve: a figure over the points, of ours or of R."""

    heading: str
    key: str
    factor: float = 1
    who: str = "ours"


@dataclass(frozen=True, slots=True)
class Curve:
    """Figures over points.

    Attributes:
        name: What the template calls it.
        title: What the chart says above it.
        points: What the points are.
        lines: The columns of the table.
        charted: How many of them, from the first, the chart draws.
        unit: What the chart's lines are in.
    """

    name: str
    title: str
    points: str
    lines: Sequence[Line]
    charted: int
    unit: str


CURVES = (
    Curve(
        "listing",
        "Listing",
        "sessions",
        (
            Line("warm, ms", "listing_warm", 1e3),
            Line("one changed, ms", "listing_changed", 1e3),
            Line("first time, ms", "listing_first", 1e3),
            Line("all files with json, ms", "listing_warm", 1e3, "R"),
        ),
        4,
        "ms",
    ),
    Curve(
        "saving",
        "Adding a message to a session",
        "messages",
        (
            Line("ours, ms", "saving", 1e3),
            Line("with json, ms", "saving", 1e3, "R"),
            Line("others wait, ms", "wait", 1e3),
        ),
        3,
        "ms",
    ),
    Curve(
        "history",
        "CPU per token, by the length of the session",
        "messages before",
        (
            Line("CPU per token, us", "history_token"),
            Line("CPU per turn of 256 tokens, ms", "history_turn", 1e3),
            Line("time to first token, ms", "history_first_token", 1e3),
        ),
        1,
        "us per token",
    ),
    Curve(
        "lengths",
        "Time to first token, by the length of the session",
        "messages before",
        (
            Line("touched before, ms", "lengths_touched_first_token", 1e3),
            Line("not touched, ms", "lengths_untouched_first_token", 1e3),
            Line("CPU per turn, touched, ms", "lengths_touched_turn", 1e3),
            Line("CPU per turn, not touched, ms", "lengths_untouched_turn", 1e3),
        ),
        2,
        "ms",
    ),
    Curve(
        "crowd",
        "CPU per token, by the number of open streams",
        "streams",
        (
            Line("ours, us per token", "crowd_token"),
            Line("R, us per token", "crowd_token", 1, "R"),
            Line("nginx, us per token", "crowd_token", 1, "nginx"),
            Line("ours, jitter p99, ms", "crowd_jitter", 1e3),
            Line("R, jitter p99, ms", "crowd_jitter", 1e3, "R"),
            Line("nginx, jitter p99, ms", "crowd_jitter", 1e3, "nginx"),
        ),
        1,
        "us per token",
    ),
    Curve(
        "turns",
        "Resident memory of the web worker",
        "turns",
        (Line("memory, MiB", "memory", 1 / 2**20),),
        1,
        "MiB",
    ),
)


def values(curve: Curve, results: Results) -> dict[int, list[float | None]]:
    """Return the values of every line at every point."""
    return {
        point: [
            _scaled(results.of(f"{line.key}@{point}", line.who), line.factor)
            for line in curve.lines
        ]
        for point in results.points(curve.lines[0].key)
    }


def ratio(ours: float | None, yardstick: float | None) -> str:
    """Write how often one goes into the other, the way round that is easy to read."""
    if not ours or not yardstick or ours < 0 or yardstick < 0:
        return ""
    share = ours / yardstick
    return f"{share:.2f} R" if share >= 1 / 2 else f"R / {1 / share:.1f}"


def number(value: float | None, unit: str = "", *, whole: bool = False) -> str:
    """Write a number as exactly as it deserves."""
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 or whole or (not unit and value == int(value)) else 2
    return f"{value:,.{digits}f} {unit}".strip()


def harness(results: Results) -> str:
    """Say what the harness itself costs."""
    client, source = results.of("client_cost", "direct"), results.of("upstream_cost", "direct")
    tokens = results.of("throughput", "direct")
    if client is None or source is None or tokens is None:
        return ""
    return (
        f"The harness: upstream {source:.2f} us/token, client {client:.2f} us/token, "
        f"{tokens / 1e3:,.0f} k tokens/s without a server."
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
