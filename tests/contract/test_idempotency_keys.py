"""The contract of idempotency keys, whatever they are kept in."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from chat.errors import KeyReused
from chat.storage.files.idempotency_keys import FileIdempotencyKeys
from chat.storage.idempotency_keys import HeldKey, IdempotencyKeys, KeyRecord
from cluster_app.redis.idempotency_keys import RedisIdempotencyKeys
from tests.contract.memory_repository import MemoryOwners
from tests.contract.memory_storage import MemoryKeys

SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"


@pytest.fixture(params=["files", "memory", "redis"])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> IdempotencyKeys:
    if request.param == "redis":
        connection = request.getfixturevalue("redis_connection")
        return RedisIdempotencyKeys(connection, owners=MemoryOwners(), seconds=60)
    return MemoryKeys() if request.param == "memory" else FileIdempotencyKeys(tmp_path / "keys")


def taken(keys: IdempotencyKeys, key: str = "k") -> HeldKey:
    held = keys.take(key, "f")
    assert not isinstance(held, KeyRecord)
    return held


def test_of_many_who_take_a_key_one_holds_it_and_the_others_find_out(
    keys: IdempotencyKeys,
) -> None:
    with ThreadPoolExecutor(10) as pool:
        outcomes = list(pool.map(lambda _: keys.take("k", "f"), range(30)))
    [held] = [each for each in outcomes if not isinstance(each, KeyRecord)]
    assert {each for each in outcomes if isinstance(each, KeyRecord)} == {held.record}
    held.release()


def test_a_key_stands_for_one_request(keys: IdempotencyKeys) -> None:
    taken(keys).release()
    with pytest.raises(KeyReused):
        keys.take("k", "another")


def test_others_find_the_turn_when_it_is_known(keys: IdempotencyKeys) -> None:
    assert keys.find("k") is None
    held = taken(keys)
    found = keys.find("k")
    assert found is not None
    assert (found.turn_id, keys.is_held("k", found)) == (None, True)
    held.keep(SESSION, TURN)
    assert keys.find("k") == held.record
    held.release()
    assert (held.record.session_id, held.record.turn_id) == (SESSION, TURN)
    assert not keys.is_held("k", held.record)
    assert keys.take("k", "f") == held.record


def test_a_key_of_which_nothing_came_is_free(keys: IdempotencyKeys) -> None:
    taken(keys).drop()
    assert keys.find("k") is None
    taken(keys).release()


def test_a_key_is_freed_only_as_what_it_was_seen_as_and_when_nobody_holds_it(
    keys: IdempotencyKeys,
) -> None:
    held = taken(keys)
    held.keep(SESSION, TURN)
    keys.drop("k", held.record)
    assert keys.find("k") == held.record
    held.release()
    keys.drop("k", msgspec.structs.replace(held.record, turn_id="another"))
    assert keys.find("k") == held.record
    keys.drop("k", held.record)
    assert keys.find("k") is None


@pytest.mark.parametrize("keys", ["files", "memory"], indirect=True)
def test_keys_live_as_long_as_their_turns(keys: IdempotencyKeys) -> None:
    begun, gone, starting = (taken(keys, key) for key in ("begun", "gone", "starting"))
    begun.keep(SESSION, TURN)
    gone.keep(SESSION, "another")
    begun.release()
    gone.release()
    assert keys.sweep(-1, lambda: {TURN}) == 1
    assert keys.find("begun") == begun.record
    assert keys.find("gone") is None
    assert keys.find("starting") == starting.record
    starting.release()
