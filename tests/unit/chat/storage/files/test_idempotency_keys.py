"""Which turn a key stands for."""

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from chat.errors import KeyOfOtherVersion, KeyReused
from chat.storage.files.idempotency_keys import FileHeldKey, FileIdempotencyKeys
from chat.storage.idempotency_keys import fingerprint_of
from sessions_app.errors import StorageFull, StorageReadOnly
from tests.unit.chat.disk import FailingDisk


def stand_for(keys, key, turn_id, session_id="a1b2c3d4e5", fingerprint="f"):
    """Take a key for a turn that has begun."""
    held = keys.take(key, fingerprint)
    held.keep(session_id, turn_id)
    held.release()
    return held.record


def test_of_many_who_take_a_key_exactly_one_gets_it(tmp_path):
    keys = FileIdempotencyKeys(tmp_path / "keys")
    with ThreadPoolExecutor(30) as pool:
        taken = list(pool.map(lambda _: keys.take("k", "f"), range(30)))
    [held] = [each for each in taken if isinstance(each, FileHeldKey)]
    assert {each for each in taken if each is not held} == {held.record}
    held.release()


def test_another_request_under_the_key_is_refused(tmp_path):
    keys = FileIdempotencyKeys(tmp_path)
    keys.take("k", "f").release()
    with pytest.raises(KeyReused):
        keys.take("k", "g")


def test_a_key_is_freed_only_as_what_it_was_seen_as(tmp_path):
    keys = FileIdempotencyKeys(tmp_path)
    seen = stand_for(keys, "k", "t1")
    keys.drop("k", msgspec.structs.replace(seen, turn_id="t2"))
    assert keys.find("k") == seen
    keys.drop("k", seen)
    assert keys.find("k") is None


def test_what_the_holder_learned_is_seen_by_the_others(tmp_path):
    keys = FileIdempotencyKeys(tmp_path)
    held = keys.take("k", "f")
    assert keys.find("k").turn_id is None
    held.keep("a1b2c3d4e5", "t1")
    found = FileIdempotencyKeys(tmp_path).find("k")
    assert (found.session_id, found.turn_id) == ("a1b2c3d4e5", "t1")
    held.release()


def test_a_key_is_held_until_it_is_let_go_however_old_it_is(tmp_path):
    keys = FileIdempotencyKeys(tmp_path)
    held = keys.take("k", "f")
    for change in (lambda: None, lambda: held.keep("a1b2c3d4e5", "t1")):
        change()
        [path] = tmp_path.iterdir()
        os.utime(path, (0, 0))
        assert keys.is_held("k", held.record)
        keys.drop("k", held.record)
        assert keys.sweep(0, set) == 0
        assert keys.find("k") == held.record
    held.release()
    assert not keys.is_held("k", held.record)


def test_a_key_is_let_go_with_the_process_that_held_it(tmp_path):
    keys = FileIdempotencyKeys(tmp_path)
    code = (
        "import sys; from pathlib import Path;"
        "from chat.storage.files.idempotency_keys import FileIdempotencyKeys;"
        "held = FileIdempotencyKeys(Path(sys.argv[1])).take('k', 'f');"
        "print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[5],
    ) as process:
        process.stdout.readline()
        record = keys.find("k")
        assert keys.is_held("k", record)
        process.kill()
    assert not keys.is_held("k", record)
    keys.drop("k", record)
    assert isinstance(keys.take("k", "f"), FileHeldKey)


def test_on_a_read_only_disk_a_key_is_held_by_whoever_holds_it_and_by_nobody_else(tmp_path):
    keys = FileIdempotencyKeys(tmp_path)
    held = keys.take("held", "f")
    known = stand_for(keys, "known", "t1")
    with FailingDisk(tmp_path).installed() as disk:
        disk.turn_read_only()
        assert keys.is_held("held", held.record)
        assert not keys.is_held("known", known)
        with pytest.raises(StorageReadOnly):
            keys.drop("known", known)
    held.release()


def test_a_dropped_key_is_free_for_another_request(tmp_path):
    keys = FileIdempotencyKeys(tmp_path)
    keys.take("k", "f").drop()
    assert isinstance(keys.take("k", "g"), FileHeldKey)


def test_a_full_disk_takes_no_key_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFull):
        FileIdempotencyKeys(tmp_path).take("k", "f")
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_is_written_in_parts_is_whole(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    held = FileIdempotencyKeys(tmp_path).take("k", "f")
    monkeypatch.undo()
    assert FileIdempotencyKeys(tmp_path).take("k", "f").fingerprint == "f"
    held.release()


def test_a_record_of_the_previous_release_is_read_and_its_start_has_its_old_time(tmp_path):
    keys = FileIdempotencyKeys(tmp_path)
    keys.take("k", "f").release()
    [path] = tmp_path.iterdir()
    path.write_bytes(b'{"fingerprint":"f","turn_id":"t1","session_id":null}')
    found = keys.take("k", "f")
    assert (found.version, found.turn_id) == (1, "t1")
    assert keys.is_held("k", found)
    os.utime(path, (0, 0))
    assert not keys.is_held("k", found)


def test_a_record_of_a_newer_server_is_left_alone_and_refused_in_a_sentence(tmp_path):
    keys = FileIdempotencyKeys(tmp_path)
    keys.take("k", "f").release()
    [path] = tmp_path.iterdir()
    path.write_bytes(b'{"version":3,"owner":{"lease":7}}')
    os.utime(path, (0, 0))
    with pytest.raises(KeyOfOtherVersion, match="newer version"):
        keys.take("k", "f")
    assert keys.sweep(0, set) == 0
    assert path.exists()


@pytest.mark.parametrize("data", [b"", b"\0" * 30, b"[]", b'{"turn_id": 3}'])
def test_a_torn_record_is_no_record(tmp_path, data):
    keys = FileIdempotencyKeys(tmp_path)
    keys.take("k", "f").release()
    [path] = tmp_path.glob("*.json")
    path.write_bytes(data)
    assert isinstance(keys.take("k", "f"), FileHeldKey)


def test_keys_of_any_text_stay_in_their_directory(tmp_path):
    keys = FileIdempotencyKeys(tmp_path / "keys")
    for key in ("../../x", "/etc/passwd", "a\0b", "é" * 100):
        keys.take(key, "f").release()
    assert {path.parent for path in tmp_path.rglob("*.json")} == {tmp_path / "keys"}


def test_old_keys_go_with_their_turns(tmp_path):
    keys = FileIdempotencyKeys(tmp_path)
    stand_for(keys, "kept", "t1")
    stand_for(keys, "gone", "t2")
    assert keys.sweep(600, set) == 0
    assert keys.sweep(0, lambda: {"t1"}) == 1
    assert keys.find("kept") is not None
    assert keys.find("gone") is None


def test_a_fingerprint_tells_requests_apart():
    assert fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    assert fingerprint_of({"a": 1}) != fingerprint_of({"a": 2})
