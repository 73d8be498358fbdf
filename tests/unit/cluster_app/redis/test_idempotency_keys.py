"""Keys in Redis: held by processes that live, and freed by themselves."""

import hashlib
import time

import msgspec
import pytest

from chat.errors import KeyOfOtherVersion
from chat.storage.idempotency_keys import KeyRecord
from cluster_app.redis.idempotency_keys import RedisHeldKey, RedisIdempotencyKeys
from sessions_app.errors import StorageUnavailable
from tests.contract.memory_repository import MemoryOwners
from tests.unit.cluster_app.redis.losing import LosingConnection

SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"
SECONDS = 60
TAKES, RECORDS, ENDS = "return ARGV[1]", "'SET', KEYS[1], ARGV[2]", "string.find"
"""Pieces of the scripts."""


@pytest.fixture
def owners():
    return MemoryOwners()


@pytest.fixture
def connection(redis_connection):
    return LosingConnection(redis_connection)


@pytest.fixture
def keys(connection, owners):
    return RedisIdempotencyKeys(connection, owners=owners, seconds=SECONDS)


@pytest.fixture
def others(redis_connection, owners):
    """Return the keys as another process has them."""
    return RedisIdempotencyKeys(redis_connection, owners=owners, seconds=SECONDS)


@pytest.fixture
def hasty(connection, owners):
    """Return keys that are held for 50 ms."""
    return RedisIdempotencyKeys(connection, owners=owners, seconds=SECONDS, hold_seconds=0.05)


def await_free(keys, key="k"):
    """Wait until nobody holds the key, and free it as a repeated request does."""
    deadline = time.monotonic() + 30
    while keys.is_held(key, record := keys.find(key)):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    keys.drop(key, record)


def place_of(connection, key="k"):
    return connection.key("key", hashlib.sha256(key.encode()).hexdigest()[:40])


def test_a_key_is_let_go_with_the_process_that_held_it(keys, others, owners):
    held = keys.take("k", "f")
    assert others.is_held("k", held.record)
    others.drop("k", held.record)
    owners.condemn()
    assert not others.is_held("k", held.record)
    others.drop("k", held.record)
    assert isinstance(others.take("k", "f"), RedisHeldKey)


def test_a_process_that_was_given_up_begins_no_turn_under_a_key_that_another_took(
    keys, others, owners
):
    lost = keys.take("k", "f")
    owners.condemn()
    others.drop("k", lost.record)
    taken = others.take("k", "f")
    with pytest.raises(StorageUnavailable):
        lost.keep(SESSION, TURN)
    lost.drop()
    lost.release()
    assert others.find("k") == taken.record
    assert others.is_held("k", taken.record)


def test_a_key_ends_by_itself(keys, connection):
    held = keys.take("k", "f")
    for change in (lambda: None, lambda: held.keep(SESSION, TURN), held.release):
        change()
        assert 0 < connection.client.pttl(place_of(connection)) <= SECONDS * 1000


def test_a_key_that_redis_forgot_is_there_again_when_its_turn_is_known(keys, others, connection):
    held = keys.take("k", "f")
    connection.client.delete(place_of(connection))
    held.keep(SESSION, TURN)
    assert others.find("k") == held.record
    held.release()
    assert not others.is_held("k", held.record)


def test_a_key_that_was_taken_unheard_is_freed_by_itself(hasty, others, connection):
    connection.lost = [TAKES]
    with pytest.raises(StorageUnavailable):
        hasty.take("k", "f")
    assert others.is_held("k", others.find("k"))
    await_free(others)
    assert isinstance(others.take("k", "f"), RedisHeldKey)


def test_a_start_that_is_slower_than_its_hold_begins_its_turn(hasty, others):
    held = hasty.take("k", "f")
    while others.is_held("k", held.record):
        time.sleep(0.005)
    held.keep(SESSION, TURN)
    assert others.find("k") == held.record


def test_a_start_that_is_slower_than_its_hold_and_was_overtaken_begins_none(hasty, others):
    held = hasty.take("k", "f")
    await_free(others)
    taken = others.take("k", "f")
    with pytest.raises(StorageUnavailable):
        held.keep(SESSION, TURN)
    held.drop()
    assert others.find("k") == taken.record


def test_a_turn_is_not_recorded_late_for_a_start_that_was_given_up(keys, others, connection):
    held = keys.take("k", "f")
    connection.late = [RECORDS]
    with pytest.raises(StorageUnavailable):
        held.keep(SESSION, TURN)
    held.drop()
    assert keys.find("k") is None
    connection.catch_up()
    assert others.find("k") is None


def test_a_client_that_asks_again_by_itself_knows_its_own_key(keys, connection):
    """A library may send a script once more when the first answer got lost."""
    connection.repeated = [TAKES]
    assert isinstance(keys.take("k", "f"), RedisHeldKey)


def test_a_turn_that_may_have_been_recorded_is_none_once_the_key_was_dropped(
    keys, others, connection
):
    held = keys.take("k", "f")
    connection.lost = ["SET"]
    with pytest.raises(StorageUnavailable):
        held.keep(SESSION, TURN)
    held.drop()
    assert isinstance(keys.take("k", "f"), RedisHeldKey)
    assert others.find("k").turn_id is None


def test_a_key_that_could_not_be_let_go_is_not_held_for_long(hasty, others, connection, caplog):
    held = hasty.take("k", "f")
    held.keep(SESSION, TURN)
    connection.away = True
    held.release()
    with pytest.raises(StorageUnavailable):
        held.drop()
    assert "not released" in caplog.text
    connection.away = False
    while others.is_held("k", held.record):
        time.sleep(0.005)
    assert others.find("k") == held.record


def test_a_key_is_dropped_whose_release_was_not_heard(keys, others, connection):
    held = keys.take("k", "f")
    connection.lost = [ENDS]
    with pytest.raises(StorageUnavailable):
        held.drop()
    assert others.find("k") is None


def test_a_record_of_a_newer_server_is_left_alone_and_refused_in_a_sentence(keys, connection):
    written = b'{"version":3,"owner":{"lease":7}}'
    connection.client.set(place_of(connection), written)
    for call in (lambda: keys.take("k", "f"), lambda: keys.find("k")):
        with pytest.raises(KeyOfOtherVersion, match="newer version"):
            call()
    assert connection.client.get(place_of(connection)) == written


def test_a_record_that_makes_no_sense_frees_its_key(keys, connection):
    connection.client.set(place_of(connection), b"?")
    assert isinstance(keys.take("k", "f"), RedisHeldKey)


def test_a_record_with_more_in_it_than_is_known_here_can_be_dropped(keys, others, connection):
    record = KeyRecord(version=2, fingerprint="f", turn_id=TURN, session_id=SESSION)
    more = msgspec.structs.asdict(record) | {"colour": "blue"}
    connection.client.set(place_of(connection), msgspec.json.encode(more))
    assert keys.find("k") == record
    keys.drop("k", record)
    assert others.find("k") is None
