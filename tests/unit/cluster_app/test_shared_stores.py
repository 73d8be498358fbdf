"""A node does not start over a store that would lose sessions."""

from collections.abc import Iterator

import pytest

from cluster_app.connections import Cluster
from cluster_app.objects.store import ObjectStore, Tag
from cluster_app.redis.connection import RedisConnection
from cluster_app.shared_stores import check_shared_stores
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.reachability import Stores
from sessions_app.errors import StorageUnavailable
from tests.object_server import REGION, ObjectServer
from tests.redis_server import running_redis


class Shared(Cluster):
    """What is shared, made by a test."""

    def __init__(self, url: str, objects: ObjectStore | None = None) -> None:
        self.connection = RedisConnection(url)
        self.objects = objects


class Ignoring(ObjectStore):
    """A store that accepts conditions and ignores them."""

    def __init__(self) -> None:
        self.name = "s3://bucket/"

    def under(self, prefix: str) -> ObjectStore:
        return self

    def put_new(self, key: str, data: bytes) -> Tag:
        return Tag("same")

    def delete(self, key: str) -> None:
        pass


class Away(Ignoring):
    """A store that can't be reached."""

    def put_new(self, key: str, data: bytes) -> Tag:
        raise StorageUnavailable("It does not answer.")


@pytest.fixture(scope="module")
def safe() -> Iterator[str]:
    """The URL of a server that keeps everything."""
    with running_redis("--appendonly", "yes") as url:
        yield url


def test_one_machine_has_nothing_to_check() -> None:
    assert Stores().check() == []


def test_a_server_that_keeps_everything_is_used_without_a_word(safe: str) -> None:
    assert check_shared_stores(Shared(safe)) == []


def test_a_server_that_throws_keys_away_is_refused() -> None:
    with (
        running_redis("--maxmemory-policy", "allkeys-lru") as url,
        pytest.raises(ConfigurationError, match=r"MOCHI_JOURNAL_URL: Redis .* noeviction"),
    ):
        check_shared_stores(Shared(url))


def test_a_server_that_forgets_at_a_restart_is_told_of(redis_server: str) -> None:
    [note] = check_shared_stores(Shared(redis_server))

    assert "appendonly is off" in note


def test_a_store_that_ignores_conditions_is_refused(safe: str) -> None:
    with pytest.raises(ConfigurationError, match="MOCHI_SESSIONS_URL: s3://bucket/ creates"):
        check_shared_stores(Shared(safe, Ignoring()))


def test_what_can_not_be_reached_is_told_and_may_come_back() -> None:
    journal, store = check_shared_stores(Shared("redis://127.0.0.1:1", Away()))

    assert journal.startswith("MOCHI_JOURNAL_URL: ")
    assert store == "MOCHI_SESSIONS_URL: It does not answer."


def test_a_missing_bucket_is_refused_with_its_name_and_what_to_do(
    safe: str, object_url: str, object_server: ObjectServer
) -> None:
    missing = ObjectStore(f"s3://nothing/prefix?endpoint={object_server.url}&region={REGION}")

    with pytest.raises(ConfigurationError) as refused:
        check_shared_stores(Shared(safe, missing))

    assert str(refused.value) == (
        "MOCHI_SESSIONS_URL: There is no bucket for s3://nothing/prefix/probes/: make it first, "
        "or correct its name."
    )
