import os
import time

import pytest
import redis

from cluster_app.connections import POOL_VARIABLE, Cluster
from cluster_app.dead_processes import condemning_dead
from mochi_project.configuration.loading import load_settings

KEY = "k" * 32


def wait_until_dead(other: Cluster, owner: str) -> None:
    end = time.monotonic() + 60
    while other.owners.lives(owner):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POOL_VARIABLE, "")  # so that it is put back


def test_a_process_of_the_pool_that_died_is_dead_for_others(redis_server: str) -> None:
    settings = load_settings(journal_url=redis_server, secret_key=KEY)
    with condemning_dead(settings) as on_death:
        child, other = Cluster(settings), Cluster(settings)
        owner = child.owners.mine()
        assert other.owners.lives(owner)

        on_death(os.getpid())

    wait_until_dead(other, owner)
    child.release()


def test_a_redis_that_is_away_for_a_moment_is_asked_again(
    redis_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(journal_url=redis_server, secret_key=KEY)
    exists, failures = redis.Redis.exists, iter([True, True])

    def fail_twice(client: redis.Redis, *names: str) -> object:
        if next(failures, False):
            raise redis.ConnectionError
        return exists(client, *names)

    with condemning_dead(settings) as on_death:
        child, other = Cluster(settings), Cluster(settings)
        owner = child.owners.mine()
        monkeypatch.setattr(redis.Redis, "exists", fail_twice)

        on_death(os.getpid())

    wait_until_dead(other, owner)
    child.release()
