"""The contract of idempotency keys, whatever they are kept in."""

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from chat.errors import KeyOfOtherVersion, KeyReused
from chat.storage.idempotency_keys import (
    HOLD_SECONDS,
    KEY_RECORDS,
    HeldKey,
    IdempotencyKeys,
    KeyRecord,
)
from cluster_app.redis.records import RedisRecords
from sessions_app.errors import StorageUnavailable
from sessions_app.store.file_records import FileRecords
from sessions_app.store.records import SharedRecords
from tests.contract.memory_repository import MemoryOwners
from tests.contract.memory_storage import MemoryRecords

SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"
NAME = f"{hashlib.sha256(b'k').hexdigest()[:40]}.json"


class Clock:
    """The time of day, which a test moves on."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def owners() -> MemoryOwners:
    return MemoryOwners()


@pytest.fixture(params=["files", "memory", "redis"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> SharedRecords:
    if request.param == "redis":
        connection = request.getfixturevalue("redis_connection")
        return RedisRecords(connection, "key", names=KEY_RECORDS, seconds=60)
    if request.param == "memory":
        return MemoryRecords()
    return FileRecords(tmp_path / "keys", names=KEY_RECORDS, limit=1000)


@pytest.fixture
def open_keys(
    records: SharedRecords, owners: MemoryOwners, clock: Clock
) -> Callable[[], IdempotencyKeys]:
    """Return a function that opens the keys as another process does."""
    return lambda: IdempotencyKeys(records, owners=owners, clock=clock)


@pytest.fixture
def keys(open_keys: Callable[[], IdempotencyKeys]) -> IdempotencyKeys:
    return open_keys()


@pytest.fixture
def others(open_keys: Callable[[], IdempotencyKeys]) -> IdempotencyKeys:
    return open_keys()


def taken(keys: IdempotencyKeys, key: str = "k") -> HeldKey:
    held = keys.take(key, "f")
    assert isinstance(held, HeldKey)
    return held


def test_of_many_who_take_a_key_one_holds_it_and_the_others_find_out(
    keys: IdempotencyKeys,
) -> None:
    with ThreadPoolExecutor(10) as pool:
        outcomes = list(pool.map(lambda _: keys.take("k", "f"), range(30)))
    [held] = [each for each in outcomes if isinstance(each, HeldKey)]
    assert {each for each in outcomes if isinstance(each, KeyRecord)} == {held.record}
    held.release()


def test_a_key_stands_for_one_request(keys: IdempotencyKeys) -> None:
    taken(keys).release()
    with pytest.raises(KeyReused):
        keys.take("k", "another")


def test_others_find_the_turn_when_it_is_known(
    keys: IdempotencyKeys, others: IdempotencyKeys
) -> None:
    assert others.find("k") is None
    held = taken(keys)
    found = others.find("k")
    assert found is not None
    assert (found.turn_id, others.is_held(found)) == (None, True)
    held.keep(SESSION, TURN)
    assert others.find("k") == held.record
    assert others.is_held(held.record)
    held.release()
    assert (held.record.session_id, held.record.turn_id) == (SESSION, TURN)
    assert not others.is_held(held.record)
    assert others.take("k", "f") == held.record


def test_a_key_of_which_nothing_came_is_free(keys: IdempotencyKeys) -> None:
    taken(keys).drop()
    assert keys.find("k") is None
    assert isinstance(keys.take("k", "another"), HeldKey)


def test_a_key_is_freed_only_as_what_it_was_seen_as_and_when_nobody_holds_it(
    keys: IdempotencyKeys, others: IdempotencyKeys
) -> None:
    held = taken(keys)
    held.keep(SESSION, TURN)
    others.drop("k", held.record)
    assert keys.find("k") == held.record
    held.release()
    others.drop("k", msgspec.structs.replace(held.record, turn_id="another"))
    assert keys.find("k") == held.record
    others.drop("k", held.record)
    assert keys.find("k") is None


def test_a_key_is_let_go_with_the_process_that_held_it(
    keys: IdempotencyKeys, others: IdempotencyKeys, owners: MemoryOwners
) -> None:
    lost = taken(keys)
    owners.condemn()
    assert not others.is_held(lost.record)
    others.drop("k", lost.record)
    mine = taken(others)
    with pytest.raises(StorageUnavailable):
        lost.keep(SESSION, TURN)
    lost.drop()
    lost.release()
    assert others.find("k") == mine.record
    assert others.is_held(mine.record)


def test_a_start_that_is_slower_than_its_hold_begins_its_turn(
    keys: IdempotencyKeys, others: IdempotencyKeys, clock: Clock
) -> None:
    held = taken(keys)
    clock.ahead = HOLD_SECONDS - 5
    assert others.is_held(held.record)
    clock.ahead = HOLD_SECONDS + 5
    assert not others.is_held(held.record)
    held.keep(SESSION, TURN)
    assert others.find("k") == held.record


def test_a_turn_that_a_slow_start_made_known_is_held_while_it_is_saved(
    keys: IdempotencyKeys, others: IdempotencyKeys, clock: Clock
) -> None:
    held = taken(keys)
    clock.ahead = HOLD_SECONDS - 5
    held.keep(SESSION, TURN)
    clock.ahead = 2 * HOLD_SECONDS - 10
    others.drop("k", held.record)
    assert others.is_held(held.record)
    clock.ahead = 2 * HOLD_SECONDS
    assert not others.is_held(held.record)


def test_a_start_that_is_slower_than_its_hold_and_was_overtaken_begins_none(
    keys: IdempotencyKeys, others: IdempotencyKeys, clock: Clock
) -> None:
    held = taken(keys)
    clock.ahead = HOLD_SECONDS + 5
    others.drop("k", held.record)
    mine = taken(others)
    with pytest.raises(StorageUnavailable):
        held.keep(SESSION, TURN)
    held.drop()
    assert others.find("k") == mine.record


def test_a_record_of_a_newer_server_is_left_alone_and_refused_in_a_sentence(
    keys: IdempotencyKeys, records: SharedRecords
) -> None:
    written = b'{"version":3,"owner":{"lease":7}}'
    records.put(NAME, written)
    for call in (lambda: keys.take("k", "f"), lambda: keys.find("k")):
        with pytest.raises(KeyOfOtherVersion, match="newer version"):
            call()
    assert keys.sweep(-1, set) == 0
    assert records.read(NAME) == written


@pytest.mark.parametrize("records", ["files", "memory"], indirect=True)
def test_a_record_of_the_first_release_is_read_and_not_held(
    keys: IdempotencyKeys, records: SharedRecords
) -> None:
    records.put(NAME, b'{"fingerprint":"f","turn_id":"t1","session_id":null}')
    found = keys.take("k", "f")
    assert isinstance(found, KeyRecord)
    assert (found.version, found.turn_id) == (1, "t1")
    assert not keys.is_held(found)


@pytest.mark.parametrize("data", [b"", b"\0" * 30, b"[]", b'{"turn_id": 3}', b"x" * 2000])
def test_a_record_that_makes_no_sense_frees_its_key(
    keys: IdempotencyKeys, records: SharedRecords, data: bytes
) -> None:
    records.put(NAME, data)
    assert isinstance(keys.take("k", "f"), HeldKey)


def test_a_record_with_more_in_it_than_is_known_here_can_be_dropped(
    keys: IdempotencyKeys, others: IdempotencyKeys, records: SharedRecords
) -> None:
    record = KeyRecord(version=2, fingerprint="f", turn_id=TURN, session_id=SESSION)
    more = msgspec.structs.asdict(record) | {"colour": "blue"}
    records.put(NAME, msgspec.json.encode(more))
    assert keys.find("k") == record
    keys.drop("k", record)
    assert others.find("k") is None


@pytest.mark.parametrize("records", ["files", "memory"], indirect=True)
def test_old_keys_go_with_their_turns(keys: IdempotencyKeys) -> None:
    begun, gone, starting = (taken(keys, key) for key in ("begun", "gone", "starting"))
    begun.keep(SESSION, TURN)
    gone.keep(SESSION, "another")
    begun.release()
    gone.release()
    assert keys.sweep(600, set) == 0
    assert keys.sweep(-1, lambda: {TURN}) == 1
    assert keys.find("begun") == begun.record
    assert keys.find("gone") is None
    assert keys.find("starting") == starting.record


def test_a_directory_in_the_place_of_a_key_keeps_no_other_from_being_swept(tmp_path: Path) -> None:
    records = FileRecords(tmp_path, names=KEY_RECORDS)
    keys = IdempotencyKeys(records, owners=MemoryOwners())
    (tmp_path / f"{'0' * 40}.json").mkdir()
    taken(keys).release()
    assert keys.sweep(-1, set) == 1
