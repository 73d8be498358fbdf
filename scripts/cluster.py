"""Generates the table of ``docs/cluster.md`` that says what happens when what fails.

A test in ``tests/cluster`` whose docstring says "what fails: what happens" is a row of it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from scripts.reference import table

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


def failures() -> str:
    """Return the table of what happens when something fails."""
    rows = (row for file in FILES for row in _rows(TESTS / f"test_{file}.py"))
    return table(("What fails", "What happens", "Test"), rows)


def _rows(path: Path) -> Iterator[tuple[str, str, str]]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            text = " ".join((ast.get_docstring(node) or "").split())
            fault, _, outcome = text.partition(": ")
            if outcome:
                yield fault, outcome[0].upper() + outcome[1:], f"`{node.name}`"
