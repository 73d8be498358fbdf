"""Files and functions stay small enough to be read in one go."""

import ast
import itertools
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_PORT_LINES = 40
FORBIDDEN_NAMES = {"utils.py", "helpers.py", "common.py", "misc.py"}
# Each entry is a debt, with the reason why it is not paid.
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}


def sources() -> Iterator[Path]:
    for init in ROOT.glob("*/__init__.py"):
        yield from init.parent.rglob("*.py")
    yield from (ROOT / "scripts").glob("*.py")


def our_tests() -> Iterator[Path]:
    yield from (ROOT / "tests").rglob("*.py")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def too_long(paths: Iterable[Path], limit: int) -> dict[str, int]:
    counts = {name_of(path): len(text_of(path).splitlines()) for path in paths}
    return {name: count for name, count in counts.items() if count > limit}


def statements(path: Path) -> Iterator[ast.AST]:
    """Return a module's statements, at any depth, without the expressions: a tenth of the nodes."""
    waiting: list[ast.AST] = [ast.parse(text_of(path))]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, field, ())


def test_files_are_short() -> None:
    long = too_long(itertools.chain(sources(), our_tests()), MAX_FILE_LINES)

    assert long.keys() == LONG_FILES.keys(), long


def test_functions_are_short() -> None:
    long = {
        f"{name_of(path)}:{node.name}": lines
        for path in itertools.chain(sources(), our_tests())
        if text_of(path).count("\n") > MAX_FUNCTION_LINES
        for node in statements(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES
    }

    assert long.keys() == LONG_FUNCTIONS.keys(), long


def test_ports_are_short() -> None:
    long = {
        f"{name_of(path)}:{node.name}": lines
        for path in sources()
        if "Protocol" in text_of(path)
        for node in statements(path)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > MAX_PORT_LINES
    }

    assert not long


def test_no_file_is_named_after_nothing() -> None:
    assert not [name_of(path) for path in sources() if path.name in FORBIDDEN_NAMES]
