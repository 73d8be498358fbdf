"""The prompts of the two phases: a person's own, else the packaged ones."""

import asyncio
import logging
from pathlib import Path

import pytest

from agents_app.prompts import MAX_FILE_BYTES, default_prompt, load_phases
from sessions_app.messages import UserMessage

PLANNING = default_prompt("planning.md")
EXECUTION = default_prompt("execution.md")


async def prompts_in(folder: Path) -> tuple[str, str]:
    """Return what is sent beside an empty message in each of the phases."""
    phases = await asyncio.to_thread(load_phases, folder / "planning.md", folder / "execution.md")
    asked = UserMessage(content="", message_id="m", timestamp="t")
    return phases.planning([asked])[-1].content.strip(), phases.executing([asked])[-1].content


async def test_without_files_the_packaged_prompts_are_used(tmp_path: Path) -> None:
    assert await prompts_in(tmp_path) == (PLANNING, EXECUTION)
    assert "numbered plan" in PLANNING
    assert PLANNING != EXECUTION


async def test_a_file_is_used_as_it_is_now(folders, tmp_path: Path) -> None:
    folders.put(tmp_path / "planning.md", "\ufeffPlan!\n")
    assert await prompts_in(tmp_path) == ("Plan!", EXECUTION)

    folders.put(tmp_path / "planning.md", "Plan more!\n")
    assert await prompts_in(tmp_path) == ("Plan more!", EXECUTION)

    folders.do((tmp_path / "planning.md").unlink)
    assert await prompts_in(tmp_path) == (PLANNING, EXECUTION)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b" \n", "it is empty"),
        (b"\xff", "not UTF-8 text"),
        (b"x" * (MAX_FILE_BYTES + 1), "larger than"),
    ],
)
async def test_a_file_that_can_not_be_used_is_logged(
    folders, tmp_path: Path, caplog, content: bytes, reason: str
) -> None:
    folders.put(tmp_path / "planning.md", content)

    with caplog.at_level(logging.WARNING):
        assert await prompts_in(tmp_path) == (PLANNING, EXECUTION)

    assert reason in caplog.text


async def test_a_link_is_not_followed(folders, tmp_path: Path) -> None:
    folders.put(tmp_path / "secret", "secret")
    folders.do(lambda: (tmp_path / "planning.md").symlink_to("secret"))

    assert await prompts_in(tmp_path) == (PLANNING, EXECUTION)
