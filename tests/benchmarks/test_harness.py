"""The harness's own pieces work: what it measures with is not what goes wrong."""

import ast
import asyncio
import importlib
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import msgspec
import ollama
import pytest
from hypothesis import given
from hypothesis import strategies as st

HERE = Path(__file__).parent


def load(name: str) -> ModuleType:
    """Import a piece of the harness, which is a folder of scripts and no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        return importlib.import_module(name)


client = load("client")
figures = load("figures")
measures = load("measures")
report = load("report")
results = load("results")
subjects = load("subjects")
turns = load("turns")
upstream = load("upstream")

CHRISTMAS = datetime(2026, 12, 24, 18, tzinfo=UTC)
HELLO = [{"role": "user", "content": "Hello"}]
MACHINE = results.Machine(
    processor="A processor",
    cores=2,
    memory_gib=8.0,
    system="Linux 6.1",
    python="3.11.7",
    data_on="tmpfs",
    packages={"django": "5.2"},
)


def measured(day: str = "2026-11-21", **of: dict[str, float]) -> object:
    return results.Measured(at=f"{day}T10:00:00+00:00", quick=False, machine=MACHINE, figures=of)


@pytest.fixture
def known() -> object:
    """What a run of some measures gave."""
    return results.Results(
        {
            "saturated": measured(
                saturated={"ours": 3.0, "R": 60.0},
                throughput={"ours": 300e3, "R": 20e3, "direct": 1e6},
                client_cost={"direct": 0.25},
                upstream_cost={"direct": 0.5},
            ),
            "ttft": measured(ttft_p50={"ours": 0.0012, "R": 0.0015}),
            "turns": measured(
                "2026-11-01", **{"memory@0": {"ours": 2**26}, "memory@2000": {"ours": 2**27}}
            ),
            "crowd": measured(
                **{
                    "crowd_token@10": {"ours": 100.0, "R": 200.0},
                    "crowd_token@200": {"ours": 40.0},
                }
            ),
        }
    )


@pytest.fixture
def upstream_url() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, str(HERE / "upstream.py")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("listening on ").strip()
        process.terminate()


def test_the_real_client_reads_what_the_upstream_streams(upstream_url: str) -> None:
    reader = ollama.Client(host=upstream_url)
    try:
        chunks = list(reader.chat("bench:100x0", HELLO, stream=True))
        assert "".join(chunk.message.content for chunk in chunks) == upstream.reply_text(100)
        assert len(chunks) == 101
        assert (chunks[-1].done_reason, chunks[-1].eval_count) == ("stop", 100)
        assert "bench:256x0" in {model.model for model in reader.list().models}
        assert reader.show("bench:256x0").capabilities == ["completion", "tools", "vision"]
    finally:
        reader._client.close()


def test_the_upstream_asks_for_a_tool_once_counts_prompts_and_writes_summaries(
    upstream_url: str,
) -> None:
    reader = ollama.Client(host=upstream_url)
    try:
        first, end = reader.chat("bench-tool:16x0", HELLO, stream=True)
        calls = first.message.tool_calls or []
        assert [(call.function.name, call.function.arguments) for call in calls] == [
            ("echo", {"text": "once more"})
        ]
        assert end.prompt_eval_count

        result = {"role": "tool", "content": "once more " * 400, "tool_name": "echo"}
        *tokens, end = reader.chat("bench-tool:16x0", [*HELLO, result], stream=True)
        assert "".join(chunk.message.content or "" for chunk in tokens) == upstream.reply_text(16)
        assert 1000 < (end.prompt_eval_count or 0) < 1100

        summary = reader.chat("bench:256x0", HELLO, format={"type": "object"})
        assert msgspec.json.decode(summary.message.content or "") == upstream.SUMMARY
    finally:
        reader._client.close()


def test_our_server_runs_the_tool_and_gives_a_long_turn_once_more(
    upstream_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(subjects.SETTINGS, "MOCHI_BACKGROUND_WORKER", "false")
    load = measures.Load(tool_turns=10, reattachments=1)

    async def measure(ours: object) -> dict[str, float]:
        return await turns.tool_calls(ours, load) | await turns.reattachment(ours, load)

    with subjects.running(subjects.Ours, upstream_url) as (ours, server, seconds):
        times = asyncio.run(measure(ours))
        assert server.memory_of("hosts") > 0
        assert server.helpers("worker") == []
        assert 0 < server.cpu_seconds() < 60

    assert times["tool_turn"] > 0
    assert times["reattach"] > 0
    assert seconds > 0


@pytest.mark.parametrize("model", ["bench:256x0", "bench:40x1000"])
async def test_the_load_client_counts_every_token(upstream_url: str, model: str) -> None:
    connection = await client.Connection.open(upstream_url, b'"done":false')
    request = connection.request_bytes("POST", "/api/chat", {"model": model, "messages": []})
    for _ in range(2):
        reply = await connection.stream(request)
        assert reply.tokens == int(model.partition(":")[2].partition("x")[0])
        assert reply.to_first_token > 0
    statistics = await connection.ask("GET", "/bench/stats")
    assert (statistics["open_streams"], statistics["broken_at"]) == (0, [])
    connection.leave()


@given(st.lists(st.integers(1, 400), max_size=20))
def test_tokens_are_counted_once_however_the_reads_fall(cuts: list[int]) -> None:
    async def feed() -> None:
        script = upstream.script_of("bench:9x0")
        stream = upstream.STREAM_HEAD + b"".join(script.tokens) + script.end
        connection = client.Connection("test", b'"done":false')
        connection.transport = type("Sink", (), {"write": lambda self, data: None})()
        finished = connection.start(b"")
        for size in [*cuts, len(stream)]:
            if stream:
                connection.data_received(stream[:size])
            stream = stream[size:]
        assert connection.reply.tokens == 9
        assert finished.done()

    asyncio.run(feed())


def test_a_refused_stream_is_told_of_instead_of_waited_for() -> None:
    async def feed() -> None:
        connection = client.Connection("test", b"event: content_delta")
        connection.transport = type("Sink", (), {"write": lambda self, data: None})()
        finished = connection.start(b"")
        connection.data_received(b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nbusy")
        assert finished.done()
        with pytest.raises(RuntimeError, match="no token came: 409 b'busy'"):
            await connection.first_token

    asyncio.run(feed())


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 51), (99, 100), (100, 100)])
def test_percentiles_are_values_that_were_measured(percent: int, value: int) -> None:
    assert measures.percentile(list(range(100, 0, -1)), percent) == value


@pytest.mark.parametrize(
    "capacity", [0, 40, 99, 100, 149, 190, 475, 1_180, 1_499, 2_990, 3_000, 9_000]
)
def test_the_number_of_streams_held_is_found_to_within_a_twentieth(capacity: int) -> None:
    tried = []

    async def holds(level: int) -> bool:
        tried.append(level)
        return level <= capacity

    held = asyncio.run(measures.most_held(holds))
    levels = measures.CAPACITY_LEVELS
    assert held <= min(capacity, levels[-1]) <= max(held * 1.05, held + 1)
    assert len(tried) == len(set(tried)) <= len(levels) + 7


@pytest.mark.parametrize(
    ("ours", "yardstick", "ratio"),
    [
        (1.0, 2.0, "0.50 R"),
        (3.0, 2.0, "1.50 R"),
        (1.0, 8.0, "R / 8.0"),
        (1.0, None, ""),
        (0.0, 2.0, ""),
        (-1.0, 2.0, ""),
    ],
)
def test_ratios_are_written_the_way_round_that_is_easy_to_read(
    ours: float, yardstick: float | None, ratio: str
) -> None:
    assert figures.ratio(ours, yardstick) == ratio


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1234.5, "ms", "1,234 ms"),
        (0.123, "ms", "0.12 ms"),
        (7, "", "7"),
        (None, "ms", ""),
        (-0.5, "ms", "-0.50 ms"),
    ],
)
def test_numbers_are_as_exact_as_they_deserve(value: float | None, unit: str, text: str) -> None:
    assert figures.number(value, unit) == text


def test_the_table_has_what_was_measured_in_its_units(known: object) -> None:
    assert [row.cells for row in figures.rows(known)] == [
        ["CPU per token, saturated", "3.00 us", "60.00 us", "R / 20.0", "R / 7", "R / 18"],
        ["added time to first token, p50", "1.20 ms", "1.50 ms", "0.80 R", "0.75 R", "0.3 R"],
        ["tokens a second, saturated", "300 k", "20.00 k", "15.00 R", "", ""],
    ]


def test_the_page_has_a_chart_and_the_points_of_a_curve(known: object) -> None:
    page = report.page(known)

    assert 'x-axis "streams" [10, 200]\n' in page
    assert "    line [100, 40]\n" in page
    assert "| 10 | 100 | 200 |  |  |  |  |" in page
    assert "| 2,000 | 128 |" in page
    assert page.count(report.NOT_MEASURED) == len(figures.CURVES) - 2 + len(figures.COMPARISONS)


def test_the_page_compares_the_streams_of_other_protocols() -> None:
    costs = {"ours": 10e0, "chat completions": 12e0, "responses": 12.5, "ollama": 11e0, "R": 60e0}
    known = results.Results({"dialects": measured(dialect_token=costs)})

    page = report.page(known)

    headings = "| figure | native | chat completions | responses | Ollama's | R | must |"
    values = (
        "| CPU per token, saturated | 10.00 us | 12.00 us | 12.50 us | 11.00 us | 60.00 us "
        "| 1.25 native |"
    )
    assert f"{headings}\n| --- | --: | --: | --: | --: | --: | --: |\n{values}" in page


def test_the_page_says_when_and_where_and_what_is_of_another_day(known: object) -> None:
    page = report.page(known)

    assert "Measured on 2026-11-21 (UTC): A processor, 2 cores, 8 GiB of memory" in page
    assert "Measured in other runs: `turns` (2026-11-01)." in page
    assert "upstream 0.50 us/token, client 0.25 us/token, 1,000 k tokens/s" in page
    assert "quick run" not in page


def test_a_run_leaves_the_measures_that_it_did_not_make(known: object, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    samples = results.Samples()
    for seconds in (0.003, 0.001, 0.002):
        samples.note("ttft", "ours", {"ttft_p50": seconds})

    results.save(known.with_measures(samples.medians(quick=True, at=CHRISTMAS)), path)  # type: ignore[attr-defined]
    kept = results.load(path)

    assert kept.of("ttft_p50") == 0.002
    assert kept.of("ttft_p50", "R") is None
    assert kept.of("memory@2000") == 2**27
    assert "Measured in other runs: `ttft` (2026-12-24, quick" in report.page(kept)


def test_the_page_is_what_the_results_say() -> None:
    said = "run `just bench`, or tests/benchmarks/run.py --render"
    assert report.page(results.load()) == report.PAGE.read_text("utf-8"), said


def test_the_bench_calls_what_it_has() -> None:
    """Measures take minutes: a name that is gone would be found after all the others."""
    tree = ast.parse((HERE / "bench.py").read_text("utf-8"))
    (bench,) = (node for node in tree.body if getattr(node, "name", "") == "Bench")
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    has = {node.name for node in ast.walk(bench) if isinstance(node, functions)}
    called = {
        node.func.attr
        for node in ast.walk(bench)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "self"
    }
    assert called <= has | {"say"}
