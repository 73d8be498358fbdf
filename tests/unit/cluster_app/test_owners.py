"""Owners of objects are found on any node, and visited by one of them."""

from pathlib import Path

import pytest

from cluster_app.objects.store import ObjectStore
from cluster_app.owners import SharedOwners
from cluster_app.redis.connection import RedisConnection
from mochi_project.app import build_services
from mochi_project.background.rounds import OwnerFolders
from mochi_project.configuration.loading import load_settings
from tests.unit.cluster_app.test_connections import KEY


@pytest.fixture
def owners(
    tmp_path: Path, object_store: ObjectStore, redis_connection: RedisConnection
) -> tuple[SharedOwners, SharedOwners]:
    for name in ("anna", "bob", "_no owner"):
        object_store.put(f"users/{name}/sessions/a1b2c3d4e5.json", b"{}")
    one, other = (
        SharedOwners(tmp_path / node, object_store, redis_connection) for node in ("one", "other")
    )
    return one, other


def test_each_owner_is_visited_by_one_process_for_each_purpose(
    owners: tuple[SharedOwners, SharedOwners],
) -> None:
    one, other = owners
    assert one.all() == other.all() == ["anna", "bob"]
    first = iter(one.to_visit("chores"))
    assert next(first) == "anna"
    assert list(other.to_visit("chores")) == ["bob"]
    assert list(first) == []
    assert list(one.to_visit("summaries")) == ["anna", "bob"]


def test_what_a_node_left_of_owners_is_not_looked_through(
    owners: tuple[SharedOwners, SharedOwners], tmp_path: Path
) -> None:
    (tmp_path / "one" / "anna" / ".mochi" / "turns" / "a1b2c3d4e5").mkdir(parents=True)
    assert owners[0].unfinished() == ()


def test_owners_of_files_are_found_in_their_folders_by_each_node(
    tmp_path: Path, object_url: str
) -> None:
    def folders(**more: str) -> OwnerFolders:
        settings = load_settings(data_dir=tmp_path, **more)
        return build_services(settings).get(OwnerFolders)

    (tmp_path / "users" / "anna").mkdir(parents=True)
    cluster = {"journal_url": "redis://nowhere.invalid:1", "secret_key": KEY}
    assert list(folders().to_visit("chores")) == ["anna"]
    assert list(folders(**cluster).to_visit("chores")) == ["anna"]
    assert isinstance(folders(**cluster, sessions_url=object_url), SharedOwners)
