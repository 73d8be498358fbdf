"""Snapshots of folders, with the generation that all processes share."""

from pathlib import Path

from tests.contract.memory_storage import MemoryRecords
from tools_app.folder_snapshots import take_snapshot
from tools_app.storage.generations import Generations


def test_an_invalidation_by_any_process_shows_in_every_snapshot(tmp_path: Path) -> None:
    shared = MemoryRecords()
    one, two = (Generations(shared, "tools.generation") for _ in range(2))
    before = take_snapshot(tmp_path, two)

    one.bump()

    after = take_snapshot(tmp_path, two)
    assert after != before
    assert after == take_snapshot(tmp_path, one)
