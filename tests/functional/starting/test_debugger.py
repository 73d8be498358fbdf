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
ELSEWHERE = """
import sys
__all__ = ["shy"]
__destructive__ = []
if "--here" in sys.argv:
    raise RuntimeError("not at a terminal")
def shy() -> str:
    'Run in the server alone.'
    return "hello"
"""
SERVER = (sys.executable, "-P", "-m", "mochi_server", "--data-dir")
COMMAND = (*SERVER, ".", "tools", "run")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "sums.py").write_text(TOOL)
    (tmp_path / "tools" / "elsewhere.py").write_text(ELSEWHERE)
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


@pytest.mark.parametrize("is_relative", [True, False])
def test_the_command_may_start_elsewhere(folder: Path, is_relative: bool) -> None:
    environment = clean_environment(WEATHER_KEY="sunny")
    named = folder.name if is_relative else str(folder)

    command = [*SERVER, named, "tools", "run", "wait", "--here"]
    ended = run_process(command, env=environment, cwd=folder.parent)

    assert ended.stdout == f"{folder} None sunny\n", ended.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("shy",), "RuntimeError: not at a terminal"),
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
