"""Snapshots of folders: taken together, with the generation that all processes share."""

import asyncio
from pathlib import Path

import pytest

from tools_app.folder_snapshots import FolderSnapshots


class Counter:
    """A generation in memory, which counts how often it is read."""

    def __init__(self) -> None:
        self.generation = 0
        self.reads = 0

    def current(self) -> int:
        self.reads += 1
        return self.generation

    def bump(self) -> None:
        self.generation += 1


class Unreadable(Counter):
    """A generation that can't be read."""

    def current(self) -> int:
        raise NotADirectoryError


async def test_snapshots_that_are_asked_for_together_are_taken_together(tmp_path: Path) -> None:
    generations = Counter()
    snapshots = FolderSnapshots(generations)

    taken = await asyncio.gather(*(snapshots.take(tmp_path / str(n)) for n in range(200)))

    assert {snapshot.number for snapshot in taken} == {1}
    assert generations.reads == 1


async def test_whoever_stops_waiting_for_a_snapshot_leaves_it_to_the_others(tmp_path: Path) -> None:
    snapshots = FolderSnapshots(Counter())
    first, second = (asyncio.create_task(snapshots.take(tmp_path)) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()

    assert (await second).files == ()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_snapshot_that_fails_fails_for_whoever_asked(tmp_path: Path) -> None:
    snapshots = FolderSnapshots(Unreadable())

    with pytest.raises(NotADirectoryError):
        await snapshots.take(tmp_path)
    with pytest.raises(NotADirectoryError):
        await snapshots.take(tmp_path)


async def test_an_invalidation_by_any_process_shows_in_every_snapshot(tmp_path: Path) -> None:
    shared = Counter()
    one, two = FolderSnapshots(shared), FolderSnapshots(shared)
    before = await two.take(tmp_path)

    await one.invalidate()

    after = await two.take(tmp_path)
    assert not after.matches(before)
    assert after.matches(await one.take(tmp_path))
