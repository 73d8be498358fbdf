"""Tables of ``docs/cluster.md``: what happens when what fails, from the tests, and how far it goes.

A test in ``tests/cluster`` whose docstring says "what fails: what happens" is a row of the first.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests/cluster"
# In the order of the rows.
FILES = (
    "deaths",
    "freezes",
    "redis",
    "failover",
    "cut_off",
    "tools",
    "owners",
    "worker",
    "clocks",
    "partitions",
    "random_faults",
)
STREAMS = (100, 1_000, 10_000)

# Measured on one core of the machine of docs/performance.md; the rest are the stores' list prices.
TOKENS_A_SECOND = 20
TURN_SECONDS = 30
WEB_MICROSECONDS_A_TOKEN = 45
REDIS_MICROSECONDS_AN_EVENT = 6.3
REDIS_MICROSECONDS_A_FOLLOWED_EVENT = 20
FOLLOWED = 0.1
REDIS_BYTES_AN_EVENT = 80
RETENTION_SECONDS = 120
PUTS_A_TURN = 2
GETS_A_TURN = 1
DOLLARS_A_PUT = 0.005 / 1000
DOLLARS_A_GET = 0.0004 / 1000
SECONDS_A_DAY = 86_400


def failures() -> str:
    """Return the table of what happens when something fails."""
    rows = [
        f"| {fault} | {outcome} | `{name}` |\n"
        for file in FILES
        for fault, outcome, name in _rows(TESTS / f"test_{file}.py")
    ]
    return "| What fails | What happens | Test |\n| --- | --- | --- |\n" + "".join(rows)


def _rows(path: Path) -> Iterator[tuple[str, str, str]]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            text = " ".join((ast.get_docstring(node) or "").split())
            fault, _, outcome = text.partition(": ")
            if outcome:
                yield fault, outcome[0].upper() + outcome[1:], node.name


def sizing() -> str:
    """Return what so many streams at a time take."""
    lines = [
        "| Streams at a time | " + " | ".join(f"{streams:,}" for streams in STREAMS) + " |\n",
        "| --- |" + " --: |" * len(STREAMS) + "\n",
    ]
    for name, of in _QUANTITIES.items():
        lines.append(f"| {name} | " + " | ".join(of(streams) for streams in STREAMS) + " |\n")
    return "".join(lines)


def _turns(streams: int) -> float:
    return streams / TURN_SECONDS


def _web_cores(streams: int) -> str:
    return f"{streams * TOKENS_A_SECOND * WEB_MICROSECONDS_A_TOKEN / 1e6:.1f}"


def _redis_core(streams: int) -> str:
    each = REDIS_MICROSECONDS_AN_EVENT + FOLLOWED * REDIS_MICROSECONDS_A_FOLLOWED_EVENT
    return f"{streams * TOKENS_A_SECOND * each / 1e6:.0%}"


def _redis_memory(streams: int) -> str:
    kept = streams * TOKENS_A_SECOND * (TURN_SECONDS / 2 + RETENTION_SECONDS)
    return f"{kept * REDIS_BYTES_AN_EVENT / 1e9:.2g} GB"


def _requests(streams: int) -> str:
    return f"{_turns(streams) * PUTS_A_TURN:,.0f} + {_turns(streams) * GETS_A_TURN:,.0f}"


def _dollars(streams: int) -> str:
    each = PUTS_A_TURN * DOLLARS_A_PUT + GETS_A_TURN * DOLLARS_A_GET
    return f"{_turns(streams) * each * SECONDS_A_DAY:,.0f} $"


_QUANTITIES = {
    "People with a chat open, 10 to 20 % of whom read an answer": lambda streams: (
        f"{streams * 5:,} to {streams * 10:,}"
    ),
    "Cores of web processes": _web_cores,
    "One core of Redis": _redis_core,
    "Memory of Redis": _redis_memory,
    "PUT and GET a second": _requests,
    "A day of them, at S3's list price": _dollars,
}
