"""Idempotency keys in files: held by processes that live, on disks that fail."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chat.storage.idempotency_keys import HeldKey, fingerprint_of
from sessions_app.errors import StorageFull, StorageReadOnly
from tests.unit.chat.disk import FailingDisk
from tests.unit.chat.keys import keys_in

PROCESS = """
import sys
from pathlib import Path
from tests.unit.chat.keys import keys_in
held = keys_in(Path(sys.argv[1])).take("k", "f")
print(1, flush=True)
input()
"""


@pytest.fixture
def keys(tmp_path):
    return keys_in(tmp_path / "keys")


def test_a_key_is_let_go_with_the_process_that_held_it(keys, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(tmp_path / "keys")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    ) as process:
        process.stdout.readline()
        record = keys.find("k")
        assert keys.is_held(record)
        process.kill()
    assert not keys.is_held(record)
    keys.drop("k", record)
    assert isinstance(keys.take("k", "f"), HeldKey)


def test_on_a_read_only_disk_a_key_is_held_by_whoever_holds_it_and_by_nobody_else(keys, tmp_path):
    held, known, lost = (keys.take(key, "f") for key in ("held", "known", "lost"))
    known.keep("a1b2c3d4e5", "t1")
    known.release()
    with FailingDisk(tmp_path).installed() as disk:
        disk.turn_read_only()
        assert keys.is_held(held.record)
        assert not keys.is_held(known.record)
        for drop in (lambda: keys.drop("known", known.record), lost.drop):
            with pytest.raises(StorageReadOnly):
                drop()
        held.release()
        assert not keys.is_held(held.record)
        assert not keys.is_held(lost.record)
    keys.drop("lost", lost.record)
    assert keys.find("lost") is None


def test_a_full_disk_takes_no_key_and_leaves_nothing(keys, tmp_path, monkeypatch):
    keys.take("another", "f").drop()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFull):
        keys.take("k", "f")
    monkeypatch.undo()
    assert [*tmp_path.glob("keys/*.json"), *tmp_path.glob("keys/.*.tmp")] == []


def test_a_record_that_is_written_in_parts_is_whole(keys, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    held = keys.take("k", "f")
    monkeypatch.undo()
    assert keys.find("k") == held.record


def test_keys_of_any_text_stay_in_their_directory(keys, tmp_path):
    for key in ("../../x", "/etc/passwd", "a\0b", "é" * 100):
        keys.take(key, "f").release()
    assert {path.parent for path in tmp_path.rglob("*.json")} == {tmp_path / "keys"}


def test_a_fingerprint_tells_requests_apart():
    assert fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    assert fingerprint_of({"a": 1}) != fingerprint_of({"a": 2})
