"""Which adapters keep what belongs to turns."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps

from chat.approvals.confirmation import Decision
from chat.conversation_storage import SessionKind, StorageEngine, Storages, build_storage
from chat.errors import ConfirmationAlreadyDecided
from chat.storage.idempotency_keys import IdempotencyKeys, KeyRecord
from chat.storage.journal import line
from cluster_app.connections import Cluster
from mochi_project.app import MochiApp, build_services
from mochi_project.configuration.loading import load_settings
from sessions_app.errors import SessionBusy
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.messages import ToolCall
from sessions_app.session import make_session
from sessions_app.store.records import record_name
from sessions_app.store.repository import Listing, SessionRepository
from tests.claims import claim_session, hold_of
from tests.unit.cluster_app.test_connections import KEY


@pytest.mark.allow_blocking
def test_machines_share_keys_and_see_who_holds_one(tmp_path: Path, redis_server: str) -> None:
    shared = []
    for name in ("one", "two"):
        settings = load_settings(data_dir=tmp_path / name, journal_url=redis_server, secret_key=KEY)
        services = build_services(settings)
        shared.append((services.get(IdempotencyKeys), services.get(Cluster)))
    (keys, cluster), (others, other) = shared
    key = new_session_id()
    held = keys.take(key, "f")
    assert not isinstance(held, KeyRecord)
    assert others.take(key, "f") == held.record
    assert others.is_held(held.record)
    held.release()
    assert not others.is_held(held.record)
    assert not (tmp_path / "one").exists()
    for each in (cluster, other):
        each.release()


@pytest.mark.allow_blocking
def test_machines_share_questions_and_keep_those_of_unsaved_sessions_apart(
    tmp_path: Path, redis_server: str
) -> None:
    stores = []
    for name in ("one", "two"):
        settings = load_settings(data_dir=tmp_path / name, journal_url=redis_server, secret_key=KEY)
        storages = build_services(settings).get(Storages)
        stores.append(storages[SessionKind.CHAT].confirmation_store)
    unsaved = storages[SessionKind.EPHEMERAL].confirmation_store
    session_id = new_session_id()
    question = stores[0].ask(
        session_id=session_id,
        message_id="f1e2d3c4b5",
        call=ToolCall(id="call_1", name="delete", arguments={}),
        call_index=0,
        turn_id="turn",
    )
    assert unsaved.pending(session_id) == []
    stores[1].decide(session_id, Decision(confirmation_id=question.confirmation_id, approved=False))
    with pytest.raises(ConfirmationAlreadyDecided):
        stores[0].decide(
            session_id, Decision(confirmation_id=question.confirmation_id, approved=True)
        )
    assert not (tmp_path / "one").exists()


def test_a_process_that_runs_no_turn_has_a_lease_too_so_that_it_finds_others_dead_in_time(
    tmp_path: Path, redis_server: str
) -> None:
    settings = load_settings(data_dir=tmp_path, journal_url=redis_server, secret_key=KEY)
    services = build_services(settings)
    cluster = services.get(Cluster)

    def leases() -> set[bytes]:
        found = cluster.connection.client.scan_iter(cluster.connection.root_key("w", "*"))
        return set(found)

    app = apps.get_app_config("cluster_app")
    assert isinstance(app, MochiApp)
    before = leases()
    chores = {**app.urgent_chores(services), **app.shared_urgent_chores(services)}
    for chore in chores.values():
        chore()
    [lease] = leases() - before
    assert lease.decode() == cluster.connection.root_key("w", cluster.owners.mine())
    cluster.release()
    alone = build_services(load_settings(data_dir=tmp_path))
    assert app.urgent_chores(alone) == app.shared_urgent_chores(alone) == {}


def test_nodes_share_records_of_responses_and_each_storage_has_its_own(
    tmp_path: Path, object_url: str
) -> None:
    nodes = []
    for directory in ("one", "two"):
        settings = load_settings(
            data_dir=tmp_path / directory,
            journal_url="redis://localhost:1",
            sessions_url=object_url,
            secret_key=KEY,
        )
        storages = build_services(settings).get(Storages).values()
        nodes.append([each.records for each in storages])
    name = record_name(new_session_id(), "0" * 20, "request")
    for number, (one, other) in enumerate(zip(*nodes, strict=True)):
        assert one.read(name) is None
        assert one.put(name, b"%d" % number)
        assert other.read(name) == b"%d" % number
    assert not (tmp_path / "one").exists()


def test_records_of_a_session_that_a_list_missed_stay(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)
    storage = build_storage(StorageEngine(settings), settings)
    kept = make_session(new_session_id(), "m", now=utc_now())
    storage.repository.create(kept)
    gone = new_session_id()
    for session_id in (kept.session_id, gone):
        storage.records.put(record_name(session_id, "0" * 20, "request"), b"{}")
    forgetful = replace(storage, repository=Forgetful(storage.repository))
    forgetful.discard_orphans(-3600)
    assert storage.records.names(kept.session_id)
    assert not storage.records.names(gone)


class Forgetful:
    """Sessions of which the list knows none, as of an index that was not told."""

    def __init__(self, repository: SessionRepository) -> None:
        self._repository = repository

    def list(self, *, anew: bool = False) -> Listing:
        return Listing(sessions=(), unreadable=())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._repository, name)


@pytest.mark.allow_blocking
def test_nodes_share_sessions_and_each_storage_has_its_own(
    tmp_path: Path, object_url: str, redis_server: str
) -> None:
    repositories: list[list[SessionRepository]] = []
    clusters: list[Cluster] = []
    for name in ("one", "two"):
        settings = load_settings(
            data_dir=tmp_path / name,
            journal_url=redis_server,
            sessions_url=object_url,
            secret_key=KEY,
        )
        services = build_services(settings)
        clusters.append(services.get(Cluster))
        repositories.append([each.repository for each in services.get(Storages).values()])
    for mine, other in zip(*repositories, strict=True):
        session = make_session(session_id=new_session_id(), model="m", now=utc_now())
        mine.create(session)
        assert other.load(session.session_id) == session
        claim_session(mine, session.session_id, "turn-1")
        [claim] = [found for found in other.claims() if found.session_id == session.session_id]
        assert (claim.turn_id, claim.alive) == ("turn-1", True)
        with pytest.raises(SessionBusy):
            other.delete(session.session_id)
        mine.release(session.session_id, hold_of(mine, "turn-1"))
        assert session.metadata in other.list().sessions
        other.delete(session.session_id)
    for cluster in clusters:
        cluster.release()
    assert not list(tmp_path.glob("**/*.json"))


@pytest.mark.allow_blocking
def test_nodes_share_journals_and_each_storage_has_its_own(
    tmp_path: Path, redis_server: str
) -> None:
    nodes = []
    for name in ("one", "two"):
        settings = load_settings(data_dir=tmp_path / name, journal_url=redis_server, secret_key=KEY)
        services = build_services(settings)
        cluster, storages = services.get(Cluster), services.get(Storages)
        nodes.append([each.journal for each in storages.values()])
    owner = cluster.owners.mine()
    session_id = new_session_id()
    for number, (one, other) in enumerate(zip(*nodes, strict=True)):
        turn_id = f"{number:020x}"
        writer = one.open(session_id, turn_id, owner=owner)
        writer.append(line(1, "done", "{}"))
        writer.close()
        assert other.turns(session_id) == [turn_id]
        assert other.has_ended(session_id, turn_id)
        other.discard_session(session_id)
    cluster.release()
    assert not (tmp_path / "one").exists()
