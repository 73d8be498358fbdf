"""What else may lie where journals are: nothing of it is followed, waited for, or fatal."""

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from chat.storage.files.journals import FileTurnJournal
from chat.storage.files.watcher import PathWatcher
from chat.storage.journal import line

SESSION, TURN, FOREIGN_TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd", "ffffffffffff0000abcd"
DONE = line(2, "done", '{"session_id":"a1b2c3d4e5"}')

INTRUDERS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a directory": Path.mkdir,
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
}


@pytest.fixture
def journal(tmp_path: Path) -> FileTurnJournal:
    journal = FileTurnJournal(tmp_path)
    writer = journal.open(SESSION, TURN, owner="me")
    writer.append(line(1, "content_delta", '{"content":"kept"}') + DONE)
    writer.close()
    return journal


@pytest.mark.parametrize("intrude", INTRUDERS.values(), ids=INTRUDERS.keys())
def test_what_is_no_regular_file_is_no_journal(
    journal: FileTurnJournal, tmp_path: Path, intrude: Callable[[Path], object]
) -> None:
    intrude(tmp_path / SESSION / f"{FOREIGN_TURN}.jsonl")

    assert journal.turns(SESSION) == [TURN]
    assert journal.all_turns() == {TURN}
    assert journal.unended_sessions() == []
    assert journal.read(SESSION, FOREIGN_TURN).entries == []
    assert not journal.has_ended(SESSION, FOREIGN_TURN)
    assert not journal.is_being_written(SESSION, FOREIGN_TURN)
    assert journal.sweep(-1) == 1


@pytest.mark.parametrize("name", ["notes.jsonl", "x\n\nevent: done\ndata: {}.jsonl", "zz.jsonl"])
def test_a_file_of_another_name_is_no_journal(
    journal: FileTurnJournal, tmp_path: Path, name: str
) -> None:
    (tmp_path / SESSION / name).write_text(DONE)
    (tmp_path / "not-a-session").mkdir()
    (tmp_path / "not-a-session" / f"{FOREIGN_TURN}.jsonl").write_text(DONE)

    assert journal.turns(SESSION) == [TURN]
    assert journal.all_turns() == {TURN}


def test_a_file_where_a_sessions_directory_should_be_has_no_journals(
    journal: FileTurnJournal, tmp_path: Path
) -> None:
    (tmp_path / "0123456789").touch()

    assert journal.turns("0123456789") == []
    assert journal.read("0123456789", TURN).entries == []
    assert journal.all_turns() == {TURN}


@pytest.mark.parametrize(
    "garbage", [b"\0" * 4096, b"garbage", b"{}", b'{"n":1,"event":"x","data":5}']
)
def test_a_line_that_is_no_entry_is_passed_over(
    journal: FileTurnJournal, tmp_path: Path, garbage: bytes
) -> None:
    path = tmp_path / SESSION / f"{TURN}.jsonl"
    header, first, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + first + garbage + b"\n" + last)

    assert [entry.event for entry in journal.read(SESSION, TURN).entries] == [
        "content_delta",
        "done",
    ]


def test_a_path_that_can_not_be_looked_at_does_not_end_the_watching(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    noticed = threading.Event()
    watcher = PathWatcher(interval_seconds=0.001)

    stop_first = watcher.watch(tmp_path / "file" / "below", lambda: None)
    stop_second = watcher.watch(tmp_path / "later", noticed.set)
    assert noticed.wait(5)
    noticed.clear()
    (tmp_path / "later").touch()
    assert noticed.wait(5)
    stop_first()
    stop_second()


def test_a_journal_of_a_newer_server_is_left_alone(
    journal: FileTurnJournal, tmp_path: Path
) -> None:
    path = tmp_path / SESSION / f"{TURN}.jsonl"
    newer = path.read_bytes().replace(b'{"journal":1', b'{"journal":2')
    path.write_bytes(newer)
    later = FileTurnJournal(tmp_path)
    assert later.turns(SESSION) == []
    assert later.unended_sessions() == []
    assert later.sweep(-1) == 0
    later.discard_session(SESSION)
    assert later.all_turns() == {TURN}
    assert path.read_bytes() == newer


def test_a_journal_without_a_header_is_an_older_servers(
    journal: FileTurnJournal, tmp_path: Path
) -> None:
    path = tmp_path / SESSION / f"{TURN}.jsonl"
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    later = FileTurnJournal(tmp_path, tmp_path / "sessions")
    assert later.turns(SESSION) == [TURN]
    assert [entry.event for entry in later.read(SESSION, TURN).entries] == ["content_delta", "done"]
    assert later.sweep(-1) == 1


def test_a_writer_whose_new_file_was_taken_for_a_dead_ones_makes_another(tmp_path: Path) -> None:
    """Between making a file and locking it, it looks as if its writer had died."""
    journal, lock = FileTurnJournal(tmp_path), fcntl.flock

    def discard_first(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX:
            with patch("fcntl.flock", lock):
                journal.discard(SESSION, TURN)
            patched.stop()
        lock(descriptor, operation)

    patched = patch("fcntl.flock", discard_first)
    patched.start()
    writer = journal.open(SESSION, TURN, owner="me")
    writer.append(line(1, "done", "{}"))
    writer.close()
    assert journal.has_ended(SESSION, TURN)


def test_one_journal_that_can_not_be_looked_at_does_not_end_the_sweep(
    journal: FileTurnJournal,
) -> None:
    other = "0123456789"
    journal.open(other, FOREIGN_TURN, owner="me").close()
    has_ended = journal.has_ended

    def fails(session_id: str, turn_id: str) -> bool:
        if session_id == other:
            raise PermissionError(13, "Permission denied")
        return has_ended(session_id, turn_id)

    with patch.object(journal, "has_ended", fails):
        assert journal.sweep(-1) == 1


def test_a_journal_that_another_process_is_making_was_not_closed(
    journal: FileTurnJournal, tmp_path: Path
) -> None:
    """Between the file and its lock, the claim would look like that of a turn which is over."""
    (tmp_path / SESSION / f"{FOREIGN_TURN}.jsonl").touch()
    assert not journal.was_closed(SESSION, FOREIGN_TURN)
    assert not journal.was_closed("0123456789", FOREIGN_TURN)


def test_a_journal_was_closed_once_its_writer_has_closed_it(
    journal: FileTurnJournal, tmp_path: Path
) -> None:
    elsewhere = FileTurnJournal(tmp_path)
    writer = journal.open("0123456789", FOREIGN_TURN, owner="me")
    assert not journal.was_closed("0123456789", FOREIGN_TURN)
    assert not elsewhere.was_closed("0123456789", FOREIGN_TURN)
    writer.close()
    assert journal.was_closed("0123456789", FOREIGN_TURN)
    assert elsewhere.was_closed("0123456789", FOREIGN_TURN)


def test_a_journal_that_was_taken_over_is_closed_with_who_took_it_over(
    journal: FileTurnJournal,
) -> None:
    writer = journal.take_over(SESSION, TURN)
    writer.append(line(3, "content_delta", "{}"))
    assert not journal.was_closed(SESSION, TURN)
    writer.close()
    assert journal.was_closed(SESSION, TURN)
