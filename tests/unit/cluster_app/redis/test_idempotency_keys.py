"""Idempotency keys in Redis, of which answers get lost."""

import hashlib

import pytest

from chat.storage.idempotency_keys import KEY_RECORDS, HeldKey, IdempotencyKeys
from cluster_app.redis.records import RedisRecords
from sessions_app.errors import StorageUnavailable
from tests.contract.memory_repository import MemoryOwners

SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"
SECONDS = 60
PUTS, SWAPS = "HSETNX", "ARGV[5]"
"""Pieces of the scripts."""


@pytest.fixture
def make_keys():
    owners = MemoryOwners()

    def make(connection):
        records = RedisRecords(connection, "key", names=KEY_RECORDS, seconds=SECONDS)
        return IdempotencyKeys(records, owners=owners)

    return make


@pytest.fixture
def keys(connection, make_keys):
    return make_keys(connection)


@pytest.fixture
def others(redis_connection, make_keys):
    """Return the keys as another process has them."""
    return make_keys(redis_connection)


def place_of(connection, key="k"):
    return connection.key("key", f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.json")


def test_a_key_ends_by_itself(keys, connection):
    held = keys.take("k", "f")
    for change in (lambda: None, lambda: held.keep(SESSION, TURN), held.release):
        change()
        assert 0 < connection.client.pttl(place_of(connection)) <= SECONDS * 1000


def test_a_turn_whose_key_redis_forgot_does_not_begin(keys, others, connection):
    held = keys.take("k", "f")
    connection.client.delete(place_of(connection))
    with pytest.raises(StorageUnavailable):
        held.keep(SESSION, TURN)
    held.drop()
    assert others.find("k") is None


def test_a_key_that_was_taken_unheard_is_free(keys, others, connection):
    connection.lost = [PUTS]
    with pytest.raises(StorageUnavailable):
        keys.take("k", "f")
    assert isinstance(others.take("k", "f"), HeldKey)


def test_a_turn_is_not_recorded_late_for_a_start_that_was_given_up(keys, others, connection):
    held = keys.take("k", "f")
    connection.late = [SWAPS]
    with pytest.raises(StorageUnavailable):
        held.keep(SESSION, TURN)
    connection.late = []
    held.drop()
    connection.catch_up()
    assert others.find("k") is None


def test_a_client_that_asks_again_by_itself_knows_its_own_key(keys, others, connection):
    """A library may send a script once more when the first answer got lost."""
    connection.repeated = [PUTS, SWAPS]
    held = keys.take("k", "f")
    held.keep(SESSION, TURN)
    held.drop()
    assert others.find("k") is None


def test_a_turn_that_may_have_been_recorded_is_none_once_the_key_was_dropped(
    keys, others, connection
):
    held = keys.take("k", "f")
    connection.lost = [SWAPS]
    with pytest.raises(StorageUnavailable):
        held.keep(SESSION, TURN)
    held.drop()
    assert isinstance(keys.take("k", "f"), HeldKey)
    assert others.find("k").turn_id is None


def test_a_key_whose_release_or_drop_was_not_heard_stands_in_nobodys_way(
    keys, others, connection, caplog
):
    released, dropped = (keys.take(key, "f") for key in ("released", "dropped"))
    released.keep(SESSION, TURN)
    connection.lost = [SWAPS]
    released.release()
    assert "not released" in caplog.text
    connection.lost = [SWAPS]
    with pytest.raises(StorageUnavailable):
        dropped.drop()
    assert not others.is_held(others.find("released"))
    assert others.find("dropped") is None
