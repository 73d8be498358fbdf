"""``manage.py init``: a data directory to begin with."""

import json
import os
import shutil
import stat
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from agents_app import prompts
from mochi_project.management import example_data
from prompts_app.service import SystemPromptService

EXAMPLES = Path(example_data.__file__).parents[1] / "examples"
AGENT_PROMPTS = Path(prompts.__file__).parent / "default_prompts"
FILES = {
    str(path.relative_to(EXAMPLES)): path
    for path in sorted(EXAMPLES.rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts
}
FILES |= {
    f"docs/agents/agent_prompt_{name}.md": AGENT_PROMPTS / f"{name}.md"
    for name in ("planning", "execution")
}
PACKAGED = list(FILES)


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("init", *arguments, stdout=out)
    return out.getvalue()


def content_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_every_packaged_file_is_copied_and_named(tmp_path: Path) -> None:
    report = run(str(tmp_path / "new" / "data"))

    copied = content_of(tmp_path / "new" / "data")
    assert copied == {name: path.read_bytes() for name, path in FILES.items()}
    assert all(f"wrote  {tmp_path / 'new' / 'data' / name}" in report for name in PACKAGED)


def test_scripts_get_json(tmp_path: Path) -> None:
    assert json.loads(run(str(tmp_path), "--json")) == {
        "directory": str(tmp_path),
        "wrote": PACKAGED,
        "left": [],
    }


def test_only_the_owner_can_read_or_change_what_was_written(tmp_path: Path) -> None:
    run(str(tmp_path / "data"))

    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").rglob("*")}
    assert modes == {0o600, 0o700}


def test_a_second_run_changes_nothing_and_says_so(tmp_path: Path) -> None:
    run(str(tmp_path))
    (tmp_path / "system_prompts" / "helpful.md").write_text("mine")
    before = content_of(tmp_path)

    report = json.loads(run(str(tmp_path), "--json"))

    assert content_of(tmp_path) == before
    assert report["wrote"] == []
    assert {"tools/", "system_prompts/helpful.md", "mcp.json.example"} <= set(report["left"])


def test_what_is_missing_is_written_again(tmp_path: Path) -> None:
    run(str(tmp_path))
    (tmp_path / "system_prompts" / "helpful.md").unlink()

    assert json.loads(run(str(tmp_path), "--json"))["wrote"] == ["system_prompts/helpful.md"]


def test_agents_prompts_are_where_the_server_looks_for_them(tmp_path: Path, settings) -> None:
    run(str(tmp_path))

    configured = settings.MOCHI.model_copy(update={"data_dir": tmp_path})
    assert configured.resolved_planning_prompt_path.is_file()
    assert configured.resolved_execution_prompt_path.is_file()


def test_an_agent_of_ones_own_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "agents" / "coder").mkdir(parents=True)
    (tmp_path / "agents" / "coder" / "SKILL.md").write_text("mine")

    report = run(str(tmp_path))

    assert os.listdir(tmp_path / "agents" / "coder") == ["SKILL.md"]
    assert f"left   {tmp_path / 'agents' / 'coder'}/" in report


def test_a_folder_of_tools_of_ones_own_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "mine.py").write_text("__all__ = []")

    report = run(str(tmp_path))

    assert os.listdir(tmp_path / "tools") == ["mine.py"]
    assert f"left   {tmp_path / 'tools'}/" in report


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()

    run(str(tmp_path))

    assert (tmp_path / "tools" / "math_tools.py").exists()


@pytest.mark.allow_blocking
def test_a_file_that_is_dropped_into_the_new_folder_is_found(tmp_path: Path, settings) -> None:
    run(str(tmp_path))
    (tmp_path / "tools" / "dates.py").write_text(
        '__all__ = ["today"]\n__destructive__ = []\ndef today() -> str:\n    """Say the day."""\n'
    )

    settings.MOCHI = settings.MOCHI.model_copy(update={"data_dir": tmp_path})
    out = StringIO()
    call_command("tools", "list", "--json", stdout=out)
    listed = json.loads(out.getvalue())

    assert {"today", "add_numbers", "roll_dice"} <= listed["tools"].keys()
    assert not listed["invalid"]


def test_a_clone_of_the_project_is_not_mixed_with_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings
) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(EXAMPLES, clone / "mochi_project" / "examples")
    monkeypatch.chdir(clone)
    settings.MOCHI = settings.MOCHI.model_copy(update={"data_dir": Path()})
    before = content_of(clone)

    with pytest.raises(CommandError, match=r"source code of mochi-server.*: init DIR"):
        run()

    assert content_of(clone) == before
    run("my-chats")
    assert (clone / "my-chats" / "tools").is_dir()


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mcp.json.example").symlink_to(tmp_path / "elsewhere")

    run(str(tmp_path / "data"))

    assert not (tmp_path / "elsewhere").exists()


def test_the_configured_data_directory_is_filled_when_none_is_named(
    tmp_path: Path, settings
) -> None:
    settings.MOCHI = settings.MOCHI.model_copy(update={"data_dir": tmp_path / "data"})

    run()

    assert (tmp_path / "data" / "tools").is_dir()


def test_test_mode_has_no_directory_that_stays(settings) -> None:
    settings.MOCHI = settings.MOCHI.model_copy(update={"test_mode": True})

    with pytest.raises(CommandError, match="Name a directory"):
        run()


def test_a_target_that_can_not_be_written_ends_the_command_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")

    with pytest.raises(CommandError, match="Not a directory"):
        run(str(tmp_path / "data"))


def test_the_example_prompts_are_prompts(tmp_path: Path) -> None:
    run(str(tmp_path))

    listed = [prompt.filename for prompt in SystemPromptService(tmp_path / "system_prompts").list()]
    assert listed == sorted(path.name for path in (EXAMPLES / "system_prompts").iterdir())
    assert {"helpful.md", "using_tools.md"} <= set(listed)
