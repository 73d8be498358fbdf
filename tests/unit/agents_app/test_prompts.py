"""The prompts of the two phases: a person's own, else the packaged ones."""

import logging
from pathlib import Path

import pytest

from agents_app.prompts import MAX_FILE_BYTES, EphemeralPrompts, default_prompt

PLANNING = default_prompt("planning.md")
EXECUTION = default_prompt("execution.md")


@pytest.fixture
def prompts(tmp_path: Path) -> EphemeralPrompts:
    return EphemeralPrompts(tmp_path / "planning.md", tmp_path / "execution.md")


async def test_without_files_the_packaged_prompts_are_used(prompts) -> None:
    assert await prompts.planning() == PLANNING
    assert await prompts.execution() == EXECUTION
    assert "numbered plan" in await prompts.planning()
    assert await prompts.planning() != await prompts.execution()


async def test_a_file_is_used_as_it_is_now(prompts, folders, tmp_path: Path) -> None:
    folders.put(tmp_path / "planning.md", "\ufeffPlan!\n")
    assert await prompts.planning() == "Plan!"

    folders.put(tmp_path / "planning.md", "Plan more!\n")
    assert await prompts.planning() == "Plan more!"
    assert await prompts.execution() == EXECUTION

    folders.do((tmp_path / "planning.md").unlink)
    assert await prompts.planning() == PLANNING


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b" \n", "it is empty"),
        (b"\xff", "not UTF-8 text"),
        (b"x" * (MAX_FILE_BYTES + 1), "larger than"),
    ],
)
async def test_a_file_that_can_not_be_used_is_logged(
    prompts, folders, tmp_path: Path, caplog, content: bytes, reason: str
) -> None:
    folders.put(tmp_path / "planning.md", content)

    with caplog.at_level(logging.WARNING):
        assert await prompts.planning() == PLANNING

    assert reason in caplog.text


async def test_a_link_is_not_followed(prompts, folders, tmp_path: Path) -> None:
    folders.put(tmp_path / "secret", "secret")
    folders.do(lambda: (tmp_path / "planning.md").symlink_to("secret"))

    assert await prompts.planning() == PLANNING
