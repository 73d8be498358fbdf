"""What dead processes have left is found for all owners at once, and only that."""

import pytest
from msgspec.structs import replace

from chat.storage.journal import line
from cluster_app.objects.store import ObjectStore
from cluster_app.redis import owner_hints
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.hub import Hub
from cluster_app.redis.journals import RedisTurnJournal
from cluster_app.redis.owner_hints import HintedSession, OwnerHints
from sessions_app.session import Session
from tests.contract.elsewhere import PidOwners
from tests.unit.cluster_app.redis.processes import Process, claim_on, session

SESSION = session(1).session_id
TURN = "0199f3a2b4c50000abcd"
DEAD = frozenset({"dead"})


@pytest.fixture
def hints(redis_connection: RedisConnection) -> OwnerHints:
    return OwnerHints(redis_connection)


def lives(process: str) -> bool:
    return process not in DEAD


def found(hints: OwnerHints) -> set[HintedSession]:
    return set(hints.due(lives))


def journal_of(connection: RedisConnection, owner: str, prefix: str = "") -> RedisTurnJournal:
    return RedisTurnJournal(
        connection.under(prefix, owner),
        owners=PidOwners(),
        hub=Hub(connection),
        retention_seconds=60,
    )


def index_of(connection: RedisConnection, store: ObjectStore, owner: str = "anna") -> Process:
    return Process(connection.under("", owner), store.under(f"users/{owner}/sessions"))


def with_waiting(kept: Session, *, paused: str | None = None) -> Session:
    metadata = replace(kept.metadata, queued=1, queue_paused=paused)
    return replace(kept, metadata=metadata)


def test_journals_of_dead_processes_are_found_for_each_owner_and_kind(
    redis_connection: RedisConnection, hints: OwnerHints
) -> None:
    for owner, prefix, process in [("anna", "", "dead"), ("anna", "a:", "dead"), ("bob", "", "me")]:
        journal = journal_of(redis_connection, owner, prefix)
        journal.open(SESSION, f"{TURN}{owner}{prefix}", owner=process)
    assert found(hints) == {
        HintedSession("anna", "", SESSION),
        HintedSession("anna", "a:", SESSION),
    }


def test_the_default_owners_journals_are_where_they_were(
    redis_connection: RedisConnection, hints: OwnerHints
) -> None:
    journal_of(redis_connection, "default").open(SESSION, TURN, owner="dead")
    members = redis_connection.client.smembers(f"{redis_connection.root}unended")
    assert members == {f"{SESSION} {TURN}".encode()}
    assert found(hints) == set()


def test_each_owner_sees_the_own_journals_only(redis_connection: RedisConnection) -> None:
    anna, bob, ann = (journal_of(redis_connection, owner) for owner in ("anna", "bob", "ann"))
    anna.open(SESSION, TURN, owner="0").append(line(1, "turn_started", "{}"))
    assert anna.turns(SESSION) == [TURN]
    for other in (bob, ann, journal_of(redis_connection, "anna", "a:")):
        assert other.turns(SESSION) == []
        assert other.read(SESSION, TURN).entries == []
        assert other.unended_sessions() == []


def test_an_ended_journal_is_found_no_more(
    redis_connection: RedisConnection, hints: OwnerHints
) -> None:
    journal = journal_of(redis_connection, "anna")
    journal.open(SESSION, TURN, owner="dead")
    with_end = journal.take_over(SESSION, TURN)
    assert found(hints) == {HintedSession("anna", "", SESSION)}
    with_end.append(line(1, "done", "{}"))
    assert found(hints) == set()
    assert redis_connection.client.smembers(f"{redis_connection.root}owners:unended") == set()


def test_a_claim_of_a_dead_process_is_found_until_it_is_released(
    redis_connection: RedisConnection, object_store: ObjectStore, hints: OwnerHints
) -> None:
    anna = index_of(redis_connection, object_store)
    anna.write(session(1), claim_on(session(1), "alive"))
    assert found(hints) == set()
    anna.write(session(1), claim_on(session(1), "dead"))
    assert found(hints) == {HintedSession("anna", "", SESSION)}
    anna.write(session(1))
    assert found(hints) == set()


def test_a_write_whose_process_died_is_found_after_a_while(
    redis_connection: RedisConnection,
    object_store: ObjectStore,
    hints: OwnerHints,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index_of(redis_connection, object_store).index.writing(SESSION)
    assert found(hints) == set()
    monkeypatch.setattr(owner_hints, "WRITING_MS", 0)
    assert found(hints) == {HintedSession("anna", "", SESSION)}


@pytest.mark.parametrize("paused", [None, "failed"])
def test_messages_that_wait_are_found_after_a_while_unless_they_are_paused(
    redis_connection: RedisConnection,
    object_store: ObjectStore,
    hints: OwnerHints,
    monkeypatch: pytest.MonkeyPatch,
    paused: str | None,
) -> None:
    index_of(redis_connection, object_store).write(with_waiting(session(1), paused=paused))
    assert found(hints) == set()
    monkeypatch.setattr(owner_hints, "WRITING_MS", 0)
    assert bool(found(hints)) is (paused is None)


def test_overlapping_writes_leave_the_claim_known(
    redis_connection: RedisConnection, object_store: ObjectStore, hints: OwnerHints
) -> None:
    """The write that was told of last may be the older one."""
    anna = index_of(redis_connection, object_store)
    kept, index = session(1), anna.index
    older, newer = index.writing(SESSION), index.writing(SESSION)
    index.wrote(SESSION, newer, etag="2", metadata=kept.metadata, claim=claim_on(kept, "dead"))
    index.wrote(SESSION, older, etag="1", metadata=kept.metadata)
    assert found(hints) == {HintedSession("anna", "", SESSION)}


def test_a_hint_that_changed_meanwhile_is_kept(
    redis_connection: RedisConnection, object_store: ObjectStore, hints: OwnerHints
) -> None:
    anna = index_of(redis_connection, object_store)
    anna.write(session(1), claim_on(session(1), "dead"))
    seen = hints.due(lives)
    anna.write(session(1), claim_on(session(1), "alive"))
    hints.forget(seen)
    assert redis_connection.client.hvals(f"{redis_connection.root}owners:claimed") == [b"alive"]
    anna.write(session(1), claim_on(session(1), "dead"))
    hints.forget(hints.due(lives))
    assert found(hints) == set()


def test_a_hint_that_redis_lost_comes_back_when_its_owner_is_loaded(
    redis_connection: RedisConnection, object_store: ObjectStore, hints: OwnerHints
) -> None:
    anna = index_of(redis_connection, object_store)
    anna.write(session(1), claim_on(session(1), "dead"))
    keys = list(redis_connection.client.scan_iter(f"{redis_connection.root}*"))
    redis_connection.client.delete(*keys)
    assert found(hints) == set()
    index_of(redis_connection, object_store).index.compare()
    assert found(hints) == {HintedSession("anna", "", SESSION)}


def test_writes_of_the_default_owner_leave_no_hints(
    redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    default = index_of(redis_connection, object_store, "default")
    default.write(session(1), claim_on(session(1), "dead"))
    assert not redis_connection.client.exists(f"{redis_connection.root}owners:claimed")
    assert [claim.owner for claim in default.index.claims()] == ["dead"]
