"""Snapshots of folders: taken together, with the generation that all processes share."""

import asyncio
from pathlib import Path

import pytest

from sessions_app.store.records import Records
from tests.contract.memory_storage import MemoryRecords
from tools_app.folder_snapshots import FolderSnapshots
from tools_app.storage.generations import Generations


class CountingRecords(MemoryRecords):
    """Records in memory, which count how often they are read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read(self, name: str) -> bytes | None:
        self.reads += 1
        return super().read(name)


class Unreadable(MemoryRecords):
    """Records that can't be read."""

    def read(self, name: str) -> bytes | None:
        raise NotADirectoryError


def snapshots_over(records: Records) -> FolderSnapshots:
    return FolderSnapshots(Generations(records, "tools.generation"))


async def test_snapshots_that_are_asked_for_together_are_taken_together(tmp_path: Path) -> None:
    records = CountingRecords()
    snapshots = snapshots_over(records)

    taken = await asyncio.gather(*(snapshots.take(tmp_path / str(n)) for n in range(200)))

    assert {snapshot.number for snapshot in taken} == {1}
    assert records.reads == 1


async def test_whoever_stops_waiting_for_a_snapshot_leaves_it_to_the_others(tmp_path: Path) -> None:
    snapshots = snapshots_over(CountingRecords())
    first, second = (asyncio.create_task(snapshots.take(tmp_path)) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()

    assert (await second).files == ()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_snapshot_that_fails_fails_for_whoever_asked(tmp_path: Path) -> None:
    snapshots = snapshots_over(Unreadable())

    with pytest.raises(NotADirectoryError):
        await snapshots.take(tmp_path)
    with pytest.raises(NotADirectoryError):
        await snapshots.take(tmp_path)


async def test_an_invalidation_by_any_process_shows_in_every_snapshot(tmp_path: Path) -> None:
    shared = MemoryRecords()
    one, two = snapshots_over(shared), snapshots_over(shared)
    before = await two.take(tmp_path)

    await one.invalidate()

    after = await two.take(tmp_path)
    assert not after.matches(before)
    assert after.matches(await one.take(tmp_path))
