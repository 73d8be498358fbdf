"""A person debugs a tool at a terminal: ``tools run NAME --here``."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.functional.processes import run_process
from tests.functional.starting.conftest import clean_environment
from tests.functional.starting.terminal import Terminal

TOOL = """
import os
__all__ = ["sum_up", "wait", "clean"]
__destructive__ = ["clean"]
def sum_up(numbers: list[int]) -> str:
    'Sum up.'
    total = sum(numbers)
    breakpoint()
    return f"the total is {total}"
async def wait() -> str:
    'Wait.'
    return f"{os.getcwd()} {os.environ.get('MOCHI_API_TOKEN')} {os.environ['WEATHER_KEY']}"
def clean() -> str:
    'Clean up.'
    raise LookupError("nothing to clean")
"""
COMMAND = (sys.executable, "-P", "-m", "mochi_server", "--data-dir", ".", "tools", "run")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "sums.py").write_text(TOOL)
    (tmp_path / ".env").write_text("WEATHER_KEY=sunny\n")
    return tmp_path


@pytest.fixture
def run_here(folder: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def run(*arguments: str) -> Terminal:
        environment = clean_environment(MOCHI_API_TOKEN="canary-of-at-least-32-characters")
        command = [*COMMAND, *arguments, "--here"]
        opened.append(Terminal(command, cwd=folder, env=environment))
        return opened[-1]

    yield run
    for terminal in opened:
        terminal.close()


def test_a_breakpoint_opens_the_debugger_at_the_terminal(
    run_here: Callable[..., Terminal],
) -> None:
    terminal = run_here("sum_up", "--arguments", '{"numbers": [1, "2"]}')

    terminal.read_until("(Pdb) ")
    terminal.type("print('total:', total * 10)\n")
    terminal.read_until("total: 30")
    terminal.type("continue\n")
    terminal.read_until("the total is 3")

    assert terminal.wait() == 0


def test_a_destructive_function_asks_and_its_traceback_is_shown(
    run_here: Callable[..., Terminal],
) -> None:
    terminal = run_here("clean")

    terminal.read_until("clean is destructive. Call it?")
    terminal.type("y\n")
    shown = terminal.read_until("mochi-server: LookupError: nothing to clean")

    assert 'sums.py", line 15, in clean' in shown
    assert "answers.py" not in shown
    assert terminal.wait() == 1


def test_a_function_sees_what_it_sees_in_the_server(folder: Path) -> None:
    environment = clean_environment(MOCHI_API_TOKEN="canary-of-at-least-32-characters")

    ended = run_process([*COMMAND, "wait", "--here"], env=environment, cwd=folder)

    assert ended.stdout == f"{folder} None sunny\n", ended.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("nope",), "There is no function 'nope' in the folder."),
        (("sum_up",), "The argument 'numbers' (list[int]) is missing. (VALIDATION_ERROR)"),
        (("clean",), "no terminal to ask on. Pass --yes."),
    ],
)
def test_what_can_not_be_called_is_told(
    folder: Path, arguments: tuple[str, ...], reason: str
) -> None:
    ended = run_process([*COMMAND, *arguments, "--here"], env=clean_environment(), cwd=folder)

    assert ended.returncode == 1
    assert reason in ended.stderr
