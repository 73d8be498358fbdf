"""The contract of small records, and of approvals over them, whatever they are kept in."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chat.approvals.store import CONFIRMATION_IDS, KINDS, ConfirmationStore
from chat.errors import ConfirmationAlreadyDecided
from cluster_app.objects.records import ObjectRecords
from cluster_app.redis.records import RedisRecords
from sessions_app.messages import ToolCall
from sessions_app.store.file_records import FileRecords
from sessions_app.store.records import Records, StampedRecords
from tests.contract.memory_storage import MemoryRecords

SESSION, OTHER_SESSION = "a1b2c3d4e5", "0123456789"
NAME, OTHER_NAME = f"conf_{'0' * 32}", f"conf_{'1' * 32}"
LATER = time.time() + 3600


@pytest.fixture(params=["files", "memory", "objects", "redis"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Records:
    if request.param == "redis":
        connection = request.getfixturevalue("redis_connection")
        return RedisRecords(connection, "conf", kinds=KINDS, seconds=60)
    if request.param == "memory":
        return MemoryRecords()
    if request.param == "objects":
        store = request.getfixturevalue("object_store").under("records")
        return ObjectRecords(store, names=CONFIRMATION_IDS, kinds=KINDS)
    return FileRecords(tmp_path / "records", names=CONFIRMATION_IDS, kinds=KINDS)


def nothing_is_foreign(data: bytes) -> bool:
    return False


def test_a_record_is_read_as_it_was_put(records: Records) -> None:
    assert records.read(SESSION, NAME, "asked") is None
    assert records.put(SESSION, NAME, "asked", b"one")
    assert records.put(SESSION, NAME, "asked", b"two")
    assert records.read(SESSION, NAME, "asked") == b"two"
    assert records.read(SESSION, NAME, "decided") is None
    assert records.read(OTHER_SESSION, NAME, "asked") is None


def test_names_are_listed_with_their_kinds(records: Records) -> None:
    assert records.kinds(SESSION) == {}
    for name, kind in ((NAME, "asked"), (NAME, "decided"), (OTHER_NAME, "asked")):
        records.put(SESSION, name, kind, b"{}")
    assert records.kinds(SESSION) == {NAME: {"asked", "decided"}, OTHER_NAME: {"asked"}}
    assert records.kinds(OTHER_SESSION) == {}


def test_the_sessions_that_have_had_no_news_are_listed(records: Records) -> None:
    assert list(records.sessions(LATER)) == []
    records.put(SESSION, NAME, "asked", b"{}")
    records.put(OTHER_SESSION, NAME, "asked", b"{}")
    assert sorted(records.sessions(LATER)) == sorted([SESSION, OTHER_SESSION])
    assert list(records.sessions(LATER - 7200)) == []


@pytest.mark.parametrize("records", ["files", "memory", "redis"], indirect=True)
def test_a_sessions_stamp_differs_after_each_put(records: StampedRecords) -> None:
    assert records.stamps() == {}
    seen = set()
    for kind in ("asked", "asked", "decided"):
        records.put(SESSION, NAME, kind, b"{}")
        assert list(records.stamps()) == [SESSION]
        seen.add(records.stamps()[SESSION])
    assert len(seen) == 3
    records.discard(SESSION)
    assert records.stamps() == {}


def test_of_many_who_put_exclusively_exactly_one_succeeds(records: Records) -> None:
    with ThreadPoolExecutor(10) as pool:
        outcomes = list(
            pool.map(
                lambda n: records.put(SESSION, NAME, "used", b"%d" % n, exclusive=True), range(30)
            )
        )
    assert sum(outcomes) == 1
    assert records.read(SESSION, NAME, "used") == b"%d" % outcomes.index(True)


def test_a_session_takes_its_records_with_it(records: Records) -> None:
    for session_id in (SESSION, OTHER_SESSION):
        records.put(session_id, NAME, "asked", b"{}")
    records.discard(SESSION)
    records.discard(SESSION)
    assert records.kinds(SESSION) == {}
    assert records.kinds(OTHER_SESSION) == {NAME: {"asked"}}


@pytest.mark.parametrize("records", ["files", "memory", "objects"], indirect=True)
def test_what_has_not_changed_is_swept_but_for_foreign_records(records: Records) -> None:
    records.put(SESSION, NAME, "asked", b"{}")
    records.put(SESSION, OTHER_NAME, "asked", b"foreign")
    assert records.sweep(0, nothing_is_foreign) == 0
    assert records.sweep(LATER, lambda data: data == b"foreign") == 1
    assert records.kinds(SESSION) == {OTHER_NAME: {"asked"}}
    assert records.sweep(LATER, nothing_is_foreign) == 1
    assert records.sweep(LATER, nothing_is_foreign) == 0


def test_an_approval_is_answered_once_and_used_once(records: Records) -> None:
    store = ConfirmationStore(records, timeout_seconds=300)
    question = store.ask(
        session_id=SESSION,
        message_id="f1e2d3c4b5",
        call=ToolCall(id="call_1", name="delete", arguments={}),
        call_index=0,
        turn_id="turn",
    )
    assert store.pending(SESSION) == [question]
    store.decide(SESSION, question.confirmation_id, approved=True)
    with pytest.raises(ConfirmationAlreadyDecided):
        store.decide(SESSION, question.confirmation_id, approved=True, arguments={"x": 1})
    used = [store.consume(SESSION, question.confirmation_id) for _ in range(2)]
    assert used == [True, False]
    with pytest.raises(ConfirmationAlreadyDecided):
        store.decide(SESSION, question.confirmation_id, approved=False)
    assert store.pending(SESSION) == []
