"""Which turn a key stands for."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from chat.errors import KeyReused
from chat.idempotency import IdempotencyKeys, KeyRecord, fingerprint_of


def record(turn_id="t1", fingerprint="f"):
    return KeyRecord(fingerprint=fingerprint, turn_id=turn_id)


def test_of_many_who_take_a_key_exactly_one_gets_it(tmp_path):
    keys = IdempotencyKeys(tmp_path / "keys")
    wanted = [record(f"t{number}") for number in range(30)]
    with ThreadPoolExecutor(30) as pool:
        taken = list(pool.map(lambda mine: keys.take("k", mine), wanted))
    assert len({each.turn_id for each in taken}) == 1
    assert sum(mine is got for mine, got in zip(wanted, taken, strict=True)) == 1


def test_another_request_under_the_key_is_refused(tmp_path):
    keys = IdempotencyKeys(tmp_path)
    keys.take("k", record())
    with pytest.raises(KeyReused):
        keys.take("k", record(fingerprint="g"))


def test_a_dropped_key_is_free_and_only_its_owner_drops_it(tmp_path):
    keys = IdempotencyKeys(tmp_path)
    keys.take("k", record("t1"))
    keys.drop("k", "t2")
    assert keys.find("k").turn_id == "t1"
    keys.drop("k", "t1")
    assert keys.find("k") is None


def test_what_the_owner_learned_is_seen_by_the_others(tmp_path):
    keys = IdempotencyKeys(tmp_path)
    mine = keys.take("k", record())
    keys.keep("k", msgspec.structs.replace(mine, session_id="a1b2c3d4e5"))
    assert IdempotencyKeys(tmp_path).find("k").session_id == "a1b2c3d4e5"


@pytest.mark.parametrize("data", [b"", b"\0" * 30, b"[]", b'{"turn_id": 3}'])
def test_a_torn_record_is_no_record(tmp_path, data):
    keys = IdempotencyKeys(tmp_path)
    keys.take("k", record("t1"))
    [path] = tmp_path.glob("*.json")
    path.write_bytes(data)
    mine = record("t2")
    assert keys.take("k", mine) is mine


def test_keys_of_any_text_stay_in_their_directory(tmp_path):
    keys = IdempotencyKeys(tmp_path / "keys")
    for key in ("../../x", "/etc/passwd", "a\0b", "é" * 100):
        keys.take(key, record())
    assert {path.parent for path in tmp_path.rglob("*.json")} == {tmp_path / "keys"}


def test_old_keys_go_with_their_turns(tmp_path):
    keys = IdempotencyKeys(tmp_path)
    keys.take("kept", record("t1"))
    keys.take("gone", record("t2"))
    assert keys.sweep(600, known_turns=set()) == 0
    assert keys.sweep(0, known_turns={"t1"}) == 1
    assert keys.find("kept") is not None
    assert keys.find("gone") is None


def test_a_fingerprint_tells_requests_apart():
    assert fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    assert fingerprint_of({"a": 1}) != fingerprint_of({"a": 2})
