"""``manage.py tools``, with tools that run in processes of their own."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mochi_project.management.example_data import copy_examples
from tests.unit.sessions_app.attachments.images import png
from tools_app.recall.arguments import SPECS

# The loop of a command serves nobody else.
pytestmark = pytest.mark.allow_blocking

NOTES = '''
from pathlib import Path

__all__ = ["add_note", "count"]
__destructive__ = ["add_note"]

def add_note(text: str) -> str:
    """Write a note down."""
    with Path("notes.txt").open("a") as file:
        file.write(text)
    return "Written."

def count(text):
    """Count characters."""
    return str(len(text))
'''
SLOW = """
from mochi_server.tools import progress
__all__ = ["work"]
__destructive__ = []
def work() -> str:
    'Work.'
    progress("half", 0.5)
    return "done"
"""
EXAMPLES = {
    "add_numbers",
    "divide_numbers",
    "flip_coin",
    "get_current_time",
    "multiply_numbers",
    "roll_dice",
    "subtract_numbers",
    "web_fetch",
    "web_search",
}

Run = Callable[..., str]


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(data_dir: Path, settings: Any) -> Run:
    settings.MOCHI = settings.MOCHI.model_copy(update={"data_dir": data_dir})

    def run_command(*arguments: str) -> str:
        out = io.StringIO()
        call_command("tools", *arguments, stdout=out, stderr=out)
        return out.getvalue()

    return run_command


@pytest.fixture
def tools_dir(data_dir: Path) -> Path:
    directory = data_dir / "tools"
    directory.mkdir()
    return directory


@pytest.fixture
def notes(tools_dir: Path) -> Path:
    (tools_dir / "notes.py").write_text(NOTES)
    return tools_dir.parent / "notes.txt"


@pytest.fixture
def examples(data_dir: Path) -> None:
    copy_examples(data_dir)


def test_the_example_tools_are_listed_without_an_invalid_one(examples: None, run: Run) -> None:
    listing = json.loads(run("list", "--json"))

    assert listing["tools"].keys() == EXAMPLES | SPECS.keys()
    assert listing["invalid"] == []
    assert not any(tool["destructive"] for tool in listing["tools"].values())
    assert listing["groups"].keys() == {
        *("math", "math_tools", "utilities", "utility_tools", "web", "recall")
    }
    assert listing["groups"]["utilities"] == ["get_current_time", "flip_coin", "roll_dice"]
    assert listing["tools"]["add_numbers"]["description"] == "Add two numbers together."
    assert listing["tools"]["add_numbers"]["parameters"] == {
        "a": {"type": "float", "description": "The first number to add."},
        "b": {"type": "float", "description": "The second number to add."},
    }


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("add_numbers", {"a": 1, "b": "2.5"}, "3.5"),
        ("divide_numbers", {"a": 1, "b": 4}, "0.25"),
        ("roll_dice", {"sides": 2, "count": 3}, "(sum "),
        ("get_current_time", {}, "20"),
    ],
)
def test_the_example_tools_run(
    examples: None, run: Run, name: str, arguments: dict[str, Any], says: str
) -> None:
    assert says in run("run", name, "--arguments", json.dumps(arguments))


def test_people_get_a_table_and_hear_of_what_is_wrong(notes: Path, run: Run) -> None:
    shown = run("list")

    assert "add_note" in shown
    assert "count (notes.py): " in shown


def test_one_tool_is_shown(notes: Path, run: Run) -> None:
    assert json.loads(run("show", "add_note", "--json"))["destructive"] is True
    shown = run("show", "add_note")
    assert "notes.py" in shown
    assert "Write a note down." in shown


def test_a_call_that_fails_ends_the_command_with_the_tools_own_words(
    examples: None, run: Run
) -> None:
    arguments = ("divide_numbers", "--arguments", '{"a": 1, "b": 0}')
    with pytest.raises(CommandError, match="A number can't be divided by zero"):
        run("run", *arguments)


def test_a_call_by_hand_is_recorded_as_one(examples: None, run: Run, data_dir: Path) -> None:
    run("run", "flip_coin")

    (line,) = (data_dir / ".mochi" / "executions.jsonl").read_text().splitlines()
    assert json.loads(line)["session_id"] == ""
    assert json.loads(line)["tool_name"] == "flip_coin"


def test_progress_is_shown_while_a_tool_runs(tools_dir: Path, run: Run) -> None:
    (tools_dir / "slow.py").write_text(SLOW)

    assert run("run", "work") == "50% half\ndone\n"


def test_an_image_is_kept_and_referred_to(tools_dir: Path, data_dir: Path, run: Run) -> None:
    code = "__all__ = ['draw']\n__destructive__ = []\n"
    code += f'def draw() -> bytes:\n    """Draw."""\n    return {png()!r}\n'
    (tools_dir / "pictures.py").write_text(code)

    shown = json.loads(run("run", "draw", "--json"))

    assert shown["result"] == f"[draw.png, {len(png())} bytes]"
    assert "files" not in shown
    [image] = shown["attachments"]
    digest = image["id"].removeprefix("sha256:")
    assert (data_dir / "attachments" / digest[:2] / digest).read_bytes() == png()


@pytest.mark.parametrize("arguments", ["{", "[]", "1"])
def test_arguments_are_a_json_object(run: Run, arguments: str) -> None:
    with pytest.raises(CommandError, match="--arguments"):
        run("run", "add_note", "--arguments", arguments)


def test_a_tool_that_is_not_there_ends_the_command(run: Run) -> None:
    for action in ("show", "run"):
        with pytest.raises(CommandError, match="There is no tool named 'nope'"):
            run(action, "nope")


def test_a_destructive_tool_does_not_run_where_nobody_can_be_asked(
    notes: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(CommandError, match="Pass --yes"):
        run("run", "add_note", "--arguments", '{"text": "x"}')
    assert not notes.exists()


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yesterday\n"])
def test_a_destructive_tool_does_not_run_against_the_persons_will(
    notes: Path, run: Run, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with pytest.raises(CommandError, match="Not called"):
        run("run", "add_note", "--arguments", '{"text": "x"}')
    assert not notes.exists()


def test_a_destructive_tool_runs_when_the_person_says_so(
    notes: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert "Written." in run("run", "add_note", "--arguments", '{"text": "x"}')
    assert "Written." in run("run", "add_note", "--yes", "--arguments", '{"text": "y"}')
    assert notes.read_text() == "xy"


def test_the_check_tells_each_file_and_fails_when_one_is_invalid(notes: Path, run: Run) -> None:
    (notes.parent / "tools" / "spare.py").write_text("def f(): pass\n")
    (notes.parent / "tools" / "broken.py").write_text("__all__ = [\n")

    with pytest.raises(CommandError, match="2 of what was found"):
        run("check")


def test_the_check_explains_every_file(notes: Path, run: Run) -> None:
    (notes.parent / "tools" / "notes.py").write_text(
        NOTES.replace("count(text)", "count(text: str) -> str")
    )
    (notes.parent / "tools" / "spare.py").write_text("def f(): pass\n")

    shown = run("check")
    files = json.loads(run("check", "--json"))["files"]

    assert "ok       add_note" in shown
    assert "has no __all__" in shown
    assert [(file["file"], file["tools"]) for file in files] == [
        ("notes.py", ["add_note", "count"]),
        ("spare.py", []),
    ]


def test_the_check_of_the_examples_finds_nothing_to_say(examples: None, run: Run) -> None:
    shown = run("check")
    assert "9 tools" in shown
    assert "nothing" not in shown
    assert "invalid" not in shown


def test_without_a_folder_the_check_says_where_to_begin(run: Run) -> None:
    assert "mochi-server init" in run("check")


def test_a_harmless_call_by_hand_reads_the_folder_once(tools_dir: Path, run: Run) -> None:
    (tools_dir / "slow.py").write_text(
        '"""Slow to import."""\n'
        "with open('imports', 'a') as file:\n    file.write('x')\n"
        "__all__ = ['hello']\n__destructive__ = []\n\n\n"
        'def hello(name: str = "") -> str:\n    """Greet."""\n    return f"Hello {name}"\n'
    )

    assert "Hello" in run("run", "hello")
    assert (tools_dir.parent / "imports").read_text() == "x"
    assert "str: " not in run("show", "hello")


def test_an_empty_list_says_how_to_begin(run: Run) -> None:
    *built_in, last = run("list").splitlines()
    assert [line.split()[1] for line in built_in if "recall" in line] == sorted(SPECS)
    assert last == "No tools of your own yet: `mochi-server init` writes examples."
