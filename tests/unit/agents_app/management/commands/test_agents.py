"""``manage.py agents``, with agents whose tools run in processes of their own."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mochi_project.management.example_data import copy_examples
from sessions_app.service import SessionManager

# The loop of a command serves nobody else.
pytestmark = pytest.mark.allow_blocking

Run = Callable[..., str]


@pytest.fixture
def run(data_dir: Path, settings: Any) -> Run:
    settings.MOCHI = settings.MOCHI.model_copy(update={"data_dir": data_dir})

    def run_command(*arguments: str) -> str:
        out = io.StringIO()
        try:
            call_command("agents", *arguments, stdout=out, stderr=out)
        except CommandError as error:
            out.write(f"error: {error}")
        return out.getvalue()

    return run_command


@pytest.fixture
def broken(data_dir: Path) -> None:
    folder = data_dir / "agents" / "poet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("You write poems.\x1b[2J")
    (folder / "__init__.py").write_text("__all__ = []")


def test_all_agents_are_listed(run: Run, data_dir: Path, broken: None) -> None:
    copy_examples(data_dir)

    shown = run("list")

    assert "coder" in shown
    assert "agent_builder" in shown
    assert "poet: The front matter is missing." in shown
    assert list(json.loads(run("list", "--json"))["agents"]) == ["agent_builder", "coder", "poet"]


def test_one_agent_is_shown_whole(run: Run, data_dir: Path) -> None:
    copy_examples(data_dir)

    shown = run("show", "coder")

    assert "write_file (destructive): Write a whole file" in shown
    assert "the calling session's" in shown
    assert "You are a careful programmer." in shown
    detail = json.loads(run("show", "coder", "--json"))
    assert detail["tool_details"]["read_file"]["destructive"] is False


def test_an_unknown_agent_ends_with_a_sentence(run: Run) -> None:
    assert run("show", "nobody") == "error: There is no agent named 'nobody'."


def test_check_says_of_each_folder_what_to_change(run: Run, data_dir: Path, broken: None) -> None:
    copy_examples(data_dir)
    (data_dir / "agents" / "_draft").mkdir()
    (data_dir / "agents" / "notes.md").write_text("x")

    shown = run("check")

    assert "2 of 3 agents can be used" in shown
    assert "ok        coder: 6 tools" in shown
    assert "invalid   poet: The front matter is missing." in shown
    assert "poet.py is missing" in shown
    assert "It has no tool" in shown
    assert "left out  _draft:" in shown
    assert "left out  notes.md:" in shown
    assert "error: Not usable: poet." in shown
    assert "\x1b" not in shown


def test_check_is_content_when_all_is_well(run: Run, data_dir: Path) -> None:
    copy_examples(data_dir)

    assert "error" not in run("check")
    report = json.loads(run("check", "--json"))
    assert report["left_out"] == {}
    assert [agent["valid"] for agent in report["agents"].values()] == [True, True]


def test_a_tool_that_is_missing_is_explained(run: Run, data_dir: Path) -> None:
    copy_examples(data_dir)
    init = data_dir / "agents" / "coder" / "__init__.py"
    init.write_text(init.read_text().replace('"read_file",', '"read_file", "dance",'))

    assert "__init__.py, dance: __all__ lists it, and it is not defined." in run("check")


def test_without_agents_the_way_to_some_is_told(run: Run) -> None:
    assert "`mochi-server init` writes two" in run("check")


def test_the_doctor_names_what_is_wrong_and_runs_nothing(
    data_dir: Path, settings: Any, broken: None
) -> None:
    changes = {"data_dir": data_dir, "test_mode": True}
    settings.MOCHI = settings.MOCHI.model_copy(update=changes)
    (data_dir / "agents" / "poet" / "poet.py").write_text(
        "from pathlib import Path\nPath('ran').touch()"
    )
    out = io.StringIO()

    call_command("doctor", "--json", stdout=out)

    (found,) = [one for one in json.loads(out.getvalue())["findings"] if one["check"] == "agents"]
    assert found["state"] == "note"
    assert "poet: The front matter is missing." in found["detail"]
    assert not (data_dir / "ran").exists()


def test_sessions_of_agents_are_listed_and_deleted(run: Run, data_dir: Path) -> None:
    chats = SessionManager(data_dir / "agents" / "agent_chats")
    session_id = chats.create("qwen3:14b").session_id

    assert session_id in run("chats")
    assert json.loads(run("chats", "--json"))["chats"][0]["session_id"] == session_id
    assert "would delete" in run("delete-chat", session_id)
    assert session_id in run("chats")
    assert run("delete-chat", session_id, "--yes") == f"Session {session_id} is deleted.\n"
    assert session_id not in run("chats")
    assert "not found" in run("delete-chat", session_id, "--yes")


def test_empty_lists_say_how_to_begin(run: Run) -> None:
    assert run("list") == "No agents yet: `mochi-server init` writes examples.\n"
    assert run("chats") == "No agent was called yet.\n"
