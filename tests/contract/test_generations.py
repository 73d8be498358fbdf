"""What every generation does, whatever it is kept in."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster_app.redis.generations import RedisGenerations
from tools_app.storage.files.generations import FileGenerations
from tools_app.storage.generations import Generations


@pytest.fixture(params=[FileGenerations, RedisGenerations])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Sequence[Generations]:
    """Return the same generation twice, as two processes have it."""
    if request.param is RedisGenerations:
        connection = request.getfixturevalue("redis_connection")
        return [RedisGenerations(connection, "tools") for _ in range(2)]
    return [request.param(tmp_path / "state" / "tools.generation") for _ in range(2)]


def test_a_generation_begins_with_0(shared: Sequence[Generations]) -> None:
    assert shared[0].current() == 0


def test_every_process_sees_a_bump(shared: Sequence[Generations]) -> None:
    shared[0].bump()

    assert [one.current() for one in shared] == [1, 1]


def test_bumps_at_the_same_time_all_count(shared: Sequence[Generations]) -> None:
    with ThreadPoolExecutor(8) as threads:
        for number in range(100):
            threads.submit(shared[number % 2].bump)

    assert [one.current() for one in shared] == [100, 100]
