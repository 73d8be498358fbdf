"""Prompts, profiles and failed summaries are in files, or in the object store of all nodes."""

from pathlib import Path

import pytest

from chat.conversation_storage import SessionKind, StorageEngine, Storages, build_storages
from chat.storage.journal import line
from cluster_app.connections import Cluster
from cluster_app.objects.store import ObjectStore
from mochi_project.app import build_services
from mochi_project.configuration.loading import MochiSettings, load_settings
from sessions_app.errors import SessionNotFound
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.session import make_session
from sessions_app.store.records import RecordStores, record_name
from tests.claims import claim_session


def node(directory: Path, object_url: str, redis: str = "redis://localhost:1") -> MochiSettings:
    """Return the settings of a node with a data directory of its own."""
    return load_settings(
        data_dir=directory, journal_url=redis, sessions_url=object_url, secret_key="s" * 32
    )


def test_what_one_node_writes_another_reads_and_no_node_keeps_files(
    tmp_path: Path, object_url: str, object_store: ObjectStore
) -> None:
    one, other = (node(tmp_path / name, object_url) for name in ("one", "other"))
    here, there = (build_services(settings).get(RecordStores) for settings in (one, other))
    for name in ("prompts", "profiles", "summaries"):
        here.open(one.resolved_data_dir / name, name).put("a.md", name.encode())
        assert there.open(other.resolved_data_dir / name, name).read("a.md") == name.encode()
    assert list(tmp_path.rglob("*.md")) == []
    keys = {item.key for page in object_store.list() for item in page}
    assert keys == {"prompts/a.md", "profiles/a.md", "summaries/a.md"}


def test_each_owner_has_a_folder_of_records_in_the_object_store(
    tmp_path: Path, object_url: str, object_store: ObjectStore
) -> None:
    stores = build_services(node(tmp_path, object_url)).get(RecordStores)
    stores.open(tmp_path, "summaries", owner="anna").put("a", b"anna's")
    stores.open(tmp_path, "summaries").put("a", b"default's")
    assert stores.open(tmp_path, "summaries", owner="bob").read("a") is None
    keys = {item.key for page in object_store.list() for item in page}
    assert keys == {"users/anna/summaries/a", "summaries/a"}


@pytest.mark.allow_blocking
def test_storages_of_owners_share_nothing_but_their_stores(
    tmp_path: Path, object_url: str, object_store: ObjectStore, redis_server: str
) -> None:
    """The same ids are other sessions, other turns, other records; claims live by one lease."""
    settings = node(tmp_path, object_url, redis_server)
    services = build_services(settings)
    cluster, engine = services.get(Cluster), services.get(StorageEngine)
    session_id, turn_id = new_session_id(), "0199f3a2b4c50000abcd"
    storages: dict[str, Storages] = {
        owner: build_storages(engine, settings.for_owner(owner))
        for owner in ("default", "anna", "bob")
    }
    for kind in SessionKind:
        mine, others = storages["anna"][kind], [storages[each][kind] for each in ("bob", "default")]
        mine.repository.create(make_session(session_id, "m", now=utc_now()))
        claim_session(mine.repository, session_id, turn_id)
        mine.journal.open(session_id, turn_id, owner=cluster.owners.mine()).append(
            line(1, "turn_started", "{}")
        )
        mine.records.put(record_name(session_id, turn_id, "request"), b"{}")
        for other in others:
            with pytest.raises(SessionNotFound):
                other.repository.load(session_id)
            assert not other.repository.list().sessions
            assert not other.repository.claims()
            assert not other.journal.turns(session_id)
            assert not other.journal.unended_sessions()
            assert not other.records.names(session_id)
    keys = [item.key for page in object_store.list() for item in page]
    assert len(keys) == 6
    assert all(key.startswith("users/anna/") for key in keys)
    cluster.release()


def test_without_an_object_store_they_are_files(data_dir: Path) -> None:
    stores = build_services(load_settings(data_dir=data_dir)).get(RecordStores)
    stores.open(data_dir / "profiles", "others").put("a.md", b"text")
    assert [path.relative_to(data_dir).as_posix() for path in data_dir.rglob("*.md")] == [
        "profiles/a.md"
    ]
