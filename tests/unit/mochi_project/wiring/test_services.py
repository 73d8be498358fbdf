"""What the composition root has done regularly, beside what its parts do themselves."""

import asyncio
import os
from pathlib import Path

from mochi_project.configuration.config import load_settings
from mochi_project.wiring.services import build_services

TEMPORARY = ".left.0123456789abcdef.tmp"
DIRECTORIES = (
    "system_prompts",
    "profiles",
    ".mochi",
    ".mochi/keys",
    ".mochi/agent_keys",
    ".mochi/summaries",
)


async def test_what_cut_off_writes_left_is_swept_wherever_files_are_written(tmp_path: Path) -> None:
    left = [tmp_path / directory / TEMPORARY for directory in DIRECTORIES]
    await asyncio.to_thread(_make_old_files, left)
    services = await asyncio.to_thread(lambda: build_services(load_settings(data_dir=tmp_path)))
    chores = asyncio.create_task(services.housekeeper.run())
    try:
        async with asyncio.timeout(30):
            while any([await asyncio.to_thread(path.exists) for path in left]):
                await asyncio.sleep(0.01)
    finally:
        chores.cancel()
        await services.aclose()


def _make_old_files(paths: list[Path]) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (0, 0))
