"""The index follows what changes: in a thread, by one process at a time, also after its death."""

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from search_app.entries import entries_of
from search_app.index import IndexUnavailable
from search_app.index_updater import RESTING_SHARE, IndexUpdater
from search_app.query import read_query
from search_app.search_request import SearchRequest
from search_app.writer import SessionRow
from sessions_app.edits import delete_message
from tests.unit.search_app.conftest import FIRST_DAY, Archive, MakeArchive


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def filler_of(archive: Archive, clock: Callable[[], float] | None = None) -> IndexUpdater:
    return IndexUpdater(archive.repository, archive.index, archive.locks, clock=clock or Clock())


def indexed(archive: Archive) -> list[str]:
    with archive.index.reading() as reader:
        return sorted(reader.stamps())


def test_a_thread_fills_the_index(archive: Archive) -> None:
    archive.keep("aaaaaaaaaa", "apfel")
    updater = filler_of(archive)
    updater.start()
    _await_thread()
    assert indexed(archive) == ["aaaaaaaaaa"]
    updater.close()


def test_no_thread_begins_after_the_end(archive: Archive) -> None:
    archive.keep("aaaaaaaaaa", "apfel")
    updater = filler_of(archive)
    updater.close()
    updater.start()
    assert not _threads()
    assert not archive.path.exists()


def test_an_index_that_cannot_be_written_is_left_alone_for_a_while(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    archive.keep("aaaaaaaaaa", "apfel")
    archive.path.mkdir(parents=True)
    clock = Clock()
    updater = filler_of(archive, clock)
    with caplog.at_level(logging.WARNING):
        updater.start()
        _await_thread()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    archive.path.rmdir()
    updater.start()
    assert not _threads()
    clock.now += 31
    updater.start()
    _await_thread()
    assert indexed(archive) == ["aaaaaaaaaa"]
    updater.close()


def test_one_process_at_a_time_fills_the_index(make_archive: MakeArchive) -> None:
    archive, other = make_archive(), make_archive()
    archive.keep("aaaaaaaaaa", "apfel")
    with other.locks.held("search", timeout_seconds=1):
        archive.updater.fill()
        with pytest.raises(IndexUnavailable):
            indexed(archive)
    archive.updater.fill()
    assert indexed(archive) == ["aaaaaaaaaa"]


def test_what_is_gone_is_taken_out(archive: Archive) -> None:
    for session_id in ("aaaaaaaaaa", "bbbbbbbbbb"):
        archive.keep(session_id, "apfel")
    archive.updater.fill()
    archive.repository.delete("aaaaaaaaaa")
    archive.updater.fill()
    assert indexed(archive) == ["bbbbbbbbbb"]
    with archive.index.reading() as reader:
        assert reader.count(SearchRequest(query=read_query("apfel"))) == 1


def test_what_was_deleted_goes_without_a_search(archive: Archive) -> None:
    for session_id in ("aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"):
        archive.keep(session_id, f"{session_id} geheim", "nein")
    archive.updater.fill()
    assert archive.path.read_bytes().count(b" geheim") == 3
    archive.repository.delete("aaaaaaaaaa")
    archive.repository.update(
        "bbbbbbbbbb", lambda session: delete_message(session, 0, now=FIRST_DAY)
    )
    archive.keep("dddddddddd", "neu")

    archive.updater.tidy()

    assert indexed(archive) == ["cccccccccc"]  # nothing is read and added
    assert archive.path.read_bytes().count(b" geheim") == 1
    assert archive.find("geheim") == [("cccccccccc", 0)]
    assert archive.find("nein") == [("cccccccccc", 1), ("bbbbbbbbbb", 0)]
    archive.updater.fill()
    assert len(indexed(archive)) == 3


def test_an_index_is_tidied_that_another_process_has_filled(make_archive: MakeArchive) -> None:
    archive, other = make_archive(), make_archive()
    archive.keep("aaaaaaaaaa", "apfel")
    archive.updater.tidy()
    archive.updater.fill()
    archive.repository.delete("aaaaaaaaaa")
    with archive.locks.held("search", timeout_seconds=1):
        other.updater.tidy()
    assert indexed(archive) == ["aaaaaaaaaa"]
    other.updater.tidy()
    assert indexed(archive) == []


def test_tidying_makes_no_index_and_removes_a_broken_one(archive: Archive) -> None:
    archive.keep("aaaaaaaaaa", "apfel")
    archive.updater.tidy()
    assert not archive.path.exists()
    archive.path.write_bytes(b"apfel" * 1000)
    archive.updater.tidy()
    assert not archive.path.exists()
    archive.updater.close()
    archive.updater.tidy()


def test_an_index_that_is_as_it_should_be_is_not_written(archive: Archive) -> None:
    archive.keep("aaaaaaaaaa", "apfel")
    archive.updater.fill()
    before = archive.path.read_bytes()
    archive.updater.tidy()
    archive.updater.fill()
    assert archive.path.read_bytes() == before


def test_sessions_that_cannot_be_read_are_tried_once(archive: Archive, tmp_path: Path) -> None:
    archive.keep("aaaaaaaaaa", "apfel")
    session = archive.keep("bbbbbbbbbb", "birne")
    path = tmp_path / "chat_sessions" / f"{session.session_id}.json"
    head, _, _ = path.read_text().partition('"messages"')
    path.write_text(f'{head}"messages": [7]\n}}\n')
    archive.updater.fill()
    assert indexed(archive) == ["aaaaaaaaaa"]


def test_sessions_of_the_same_time_have_rows_of_their_own(archive: Archive) -> None:
    for number in range(40):
        archive.keep(f"{number:010x}", *["apfel"] * 3, updated_at=FIRST_DAY)
    archive.keep("f" * 10, *["birne"] * 5000, updated_at=FIRST_DAY)  # more than a microsecond has
    archive.keep("e" * 10, "birne", updated_at=FIRST_DAY.replace(".000000", ".000001"))
    archive.updater.fill()
    assert len(archive.find("apfel", limit=1000)) == 120
    assert archive.results("birne", limit=1).total_estimate > 1000
    assert len(archive.find("birne", limit=10_000)) == 5001


def test_the_work_ends_in_the_middle_of_a_session(archive: Archive) -> None:
    archive.keep("aaaaaaaaaa", *["apfel"] * 10)
    updater = filler_of(archive)
    updater.close()
    updater.fill()
    assert indexed(archive) == []


def test_every_entry_is_a_step_between_which_the_work_may_rest(archive: Archive) -> None:
    session = archive.keep("aaaaaaaaaa", *["apfel"] * 10)
    row = SessionRow("aaaaaaaaaa", "", FIRST_DAY, tuple(entries_of(session)))
    steps: list[int] = []
    with archive.index.writing() as writer:
        writer.put([row], lambda: steps.append(1))
        assert len(steps) == 1 + 10
        writer.take_out(["aaaaaaaaaa"], lambda: steps.append(1))
        assert len(steps) == 2 * (1 + 10)


def test_the_work_rests_as_long_as_it_works_unless_somebody_waits_for_it(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float | None] = []

    class Closing(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            rests.append(timeout)
            return self.is_set()

    class BusyClock(Clock):
        def __call__(self) -> float:
            self.now += 1
            return self.now

    with monkeypatch.context() as patch:
        patch.setattr(threading, "Event", Closing)
        updater = filler_of(archive, BusyClock())
    archive.keep("aaaaaaaaaa", *["apfel"] * 10)
    updater.fill(rests=True)
    assert rests == [RESTING_SHARE] * (1 + 10)
    rests.clear()
    archive.keep("bbbbbbbbbb", *["apfel"] * 10)
    updater.fill()
    assert not any(rests)
    assert indexed(archive) == ["aaaaaaaaaa", "bbbbbbbbbb"]
    updater.close()


_BUILD = """
import os, signal, sys
from pathlib import Path
from search_app import index_updater
from search_app.index_updater import IndexUpdater
from search_app.index import SearchIndex
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.locks import FileLocks

class Killed(FileSessionRepository):
    read_so_far = 0
    def load(self, session_id):
        self.read_so_far += 1
        if self.read_so_far == 50:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().load(session_id)

directory = Path(sys.argv[1])
sessions = Killed(directory / "chat_sessions")
index = SearchIndex(directory / "state" / "search.sqlite3")
IndexUpdater(sessions, index, FileLocks(directory / "state")).fill()
"""


def test_a_process_that_dies_while_it_builds_leaves_what_it_had(
    archive: Archive, tmp_path: Path
) -> None:
    for number in range(60):
        archive.keep(f"{number:010x}", f"apfel {number}")
    process = subprocess.run([sys.executable, "-c", _BUILD, str(tmp_path)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert len(indexed(archive)) == 40  # two transactions
    assert len(archive.find("apfel", limit=100)) == 60
    archive.updater.fill()
    assert len(indexed(archive)) == 60
    assert len(archive.find("apfel", limit=100)) == 60


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "search index"]


def _await_thread() -> None:
    for thread in _threads():
        thread.join()
