"""The log of changes as a file: bounded, given up, forgotten."""

import os
import threading
import time
from pathlib import Path

import pytest

from chat.storage.files.change_log import LISTENED_SECONDS, FileChangeLog
from chat.storage.files.watcher import PathWatcher

SESSION = "a1b2c3d4e5"
SMALL = 500


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "changes"


@pytest.fixture
def log(directory: Path) -> FileChangeLog:
    return FileChangeLog(directory, PathWatcher(0.001), most_bytes=SMALL)


def fill(log: FileChangeLog) -> None:
    for _ in range(SMALL // 20):
        log.note("changed", SESSION)


def test_nothing_is_written_while_nobody_listens(log: FileChangeLog, directory: Path) -> None:
    log.note("created", SESSION)
    log.sweep()
    assert not directory.exists()


def test_a_full_log_is_followed_by_another_and_both_are_read(
    log: FileChangeLog, directory: Path
) -> None:
    start = log.open()
    fill(log)
    end = log.open()
    assert end.partition("-")[0] != start.partition("-")[0]
    log.note("deleted", SESSION)
    changes = log.read(start, 1000)
    assert changes is not None
    assert len(changes) == SMALL // 20 + 1
    assert changes[-1].kind == "deleted"
    assert log.read(changes[3].id, 5) == changes[4:9]
    assert log.read(changes[-2].id, 5) == changes[-1:]
    assert sum(file.stat().st_size for file in directory.glob("log*")) < 3 * SMALL


def test_what_is_older_than_two_logs_is_not_known(log: FileChangeLog) -> None:
    start = log.open()
    for _ in range(2):
        fill(log)
        log.open()
    assert log.read(start, 10) is None


def test_a_change_that_came_too_late_for_a_log_is_in_the_next_one(
    log: FileChangeLog, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.open()
    fill(log)
    write = os.write

    def slowly(descriptor: int, line: bytes) -> int:
        monkeypatch.undo()
        log.open()  # another process begins a log just before
        return write(descriptor, line)

    monkeypatch.setattr(os, "write", slowly)
    log.note("deleted", SESSION)
    assert b"deleted" in (directory / "log").read_bytes()


def test_a_log_that_takes_no_more_is_given_up_and_says_so(
    log: FileChangeLog, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = log.open()
    monkeypatch.setattr(os, "write", lambda _descriptor, line: len(line) - 1)
    log.note("changed", SESSION)
    monkeypatch.undo()
    assert log.read(start, 10) is None
    assert log.open() != start


@pytest.mark.parametrize("broken", [b"", b"\0" * 60, b"something else\n" * 10])
def test_a_file_that_is_no_log_is_replaced(
    log: FileChangeLog, directory: Path, broken: bytes
) -> None:
    start = log.open()
    (directory / "log").write_bytes(broken)
    assert log.read(start, 10) is None
    fresh = log.open()
    log.note("created", SESSION)
    changes = log.read(fresh, 10)
    assert changes is not None
    assert [change.kind for change in changes] == ["created"]


def test_lines_that_make_no_sense_are_not_skipped_in_silence(
    log: FileChangeLog, directory: Path
) -> None:
    start = log.open()
    with (directory / "log").open("ab") as file:
        file.write(b"changed \0\0\0\n")
    assert log.read(start, 10) is None


def test_a_line_that_is_not_whole_yet_is_read_later(log: FileChangeLog, directory: Path) -> None:
    start = log.open()
    with (directory / "log").open("ab", buffering=0) as file:
        file.write(b"deleted a1b2")
        assert log.read(start, 10) == []
        assert log.open() == start
        file.write(b"c3d4e5 \n")
    changes = log.read(start, 10)
    assert changes is not None
    assert [change.session_id for change in changes] == [SESSION]


def test_a_log_that_nobody_listens_to_is_forgotten_after_a_while(
    log: FileChangeLog, directory: Path
) -> None:
    start = log.open()
    log.sweep()
    assert log.read(start, 10) == []
    long_ago = time.time() - LISTENED_SECONDS - 1
    os.utime(directory / "listened", (long_ago, long_ago))
    log.sweep()
    assert log.read(start, 10) is None
    log.note("created", SESSION)
    assert not (directory / "log").exists()


def test_who_follows_is_told_at_once_of_changes_of_this_process(directory: Path) -> None:
    log = FileChangeLog(directory, PathWatcher(3600))  # looks once
    log.open()
    looked = threading.Event()
    told: list[int] = []

    def tell() -> None:
        told.append(1)
        looked.set()

    log.follow(tell)
    assert looked.wait(30)
    before = len(told)
    log.note("created", SESSION)
    assert len(told) == before + 1
