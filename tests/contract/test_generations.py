"""Generations of tools, whatever they are kept in."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster_app.redis.records import RedisRecords
from sessions_app.errors import StorageUnavailable
from sessions_app.store.file_records import FileRecords
from sessions_app.store.records import Records
from tests.contract.memory_storage import MemoryRecords
from tools_app.storage.generations import Generations

NAME = "tools.generation"


@pytest.fixture(params=["files", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Sequence[Generations]:
    """Return the same generation twice, as two processes have it."""

    def records() -> Records:
        if request.param == "redis":
            return RedisRecords(request.getfixturevalue("redis_connection"), "gens", names=NAME)
        return FileRecords(tmp_path / "state", names=NAME)

    return [Generations(records(), NAME) for _ in range(2)]


def test_every_process_sees_each_reload(shared: Sequence[Generations]) -> None:
    seen = {shared[0].current()}
    for number in range(4):
        shared[number % 2].bump()
        generation, same = (one.current() for one in shared)
        assert generation == same
        assert generation not in seen
        seen.add(generation)


def test_after_reloads_at_the_same_time_all_see_the_same(shared: Sequence[Generations]) -> None:
    before = shared[0].current()
    with ThreadPoolExecutor(8) as threads:
        for number in range(100):
            threads.submit(shared[number % 2].bump)
    after = {one.current() for one in shared}
    assert len(after) == 1
    assert before not in after


class DistantRecords(MemoryRecords):
    """Records that are out of reach for a while."""

    is_away = False

    def read(self, name: str) -> bytes | None:
        if self.is_away:
            raise StorageUnavailable("away")
        return super().read(name)


def test_the_last_known_generation_counts_while_the_storage_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = DistantRecords()
    generations = Generations(records, NAME)
    generations.bump()
    known = generations.current()
    records.is_away = True
    assert {generations.current() for _ in range(3)} == {known}
    assert caplog.messages == ["reloads of other processes can't be seen now"]
