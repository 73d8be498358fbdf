"""The cached listing: it reads what changed, and no more of it than it must."""

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessions_app.format.codec import encode
from sessions_app.session import Session, with_metadata
from sessions_app.store import listing
from sessions_app.store.listing import CLOCK_TICK_NS, HEAD_SIZE, CachedListing

SESSION_ID = "a1b2c3d4e5"
LATER = "2026-11-21T11:00:00.000000+00:00"

MakeSession = Callable[..., Session]


class Reads:
    """Counts whole reads."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.wholes: list[str] = []


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    counted = Reads()
    read_head, read_regular = listing.read_head, listing.read_regular

    def count_head(path: Path, session_id: str) -> object:
        counted.heads.append(session_id)
        return read_head(path, session_id)

    def count_whole(path: Path, *, limit: int) -> bytes:
        counted.wholes.append(path.stem)
        return read_regular(path, limit=limit)

    monkeypatch.setattr(listing, "read_head", count_head)
    monkeypatch.setattr(listing, "read_regular", count_whole)
    return counted


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def settled(directory: Path) -> CachedListing:
    """Return a listing whose clock is far from every file's time."""
    return CachedListing(
        directory, size_limit=1 << 20, clock_ns=lambda: time.time_ns() + 10 * CLOCK_TICK_NS
    )


def write(directory: Path, session: Session) -> Path:
    path = directory / f"{session.session_id}.json"
    path.write_bytes(encode(session))
    return path


def test_only_the_head_of_our_own_files_is_read(
    settled: CachedListing, directory: Path, reads: Reads, make_session: MakeSession
) -> None:
    session = make_session("Hello", "x" * 10 * HEAD_SIZE)
    write(directory, session)
    assert settled.list().sessions == (session.metadata,)
    assert (reads.heads, reads.wholes) == ([SESSION_ID], [])


def test_files_of_others_are_read_whole(
    settled: CachedListing, directory: Path, reads: Reads
) -> None:
    (directory / f"{SESSION_ID}.json").write_text(
        '{"messages": [{"role": "user", "content": "Hello"}],'
        ' "metadata": {"model": "m", "created_at": "2025-01-15T10:30:00+00:00"}}'
    )
    (found,) = settled.list().sessions
    assert (found.preview, found.message_count, found.model) == ("Hello", 1, "m")
    assert reads.wholes == [SESSION_ID]


def test_what_has_not_changed_is_not_read_again(
    settled: CachedListing, directory: Path, reads: Reads, make_session: MakeSession
) -> None:
    write(directory, make_session("Hello"))
    (directory / "0000000000.json").write_text("broken")
    first = settled.list()
    reads.heads.clear()
    reads.wholes.clear()
    assert settled.list() is first
    assert (reads.heads, reads.wholes) == ([], [])


def test_a_file_that_changed_a_moment_ago_is_read_again(
    directory: Path, reads: Reads, make_session: MakeSession
) -> None:
    fresh = CachedListing(directory, size_limit=1 << 20)
    write(directory, make_session("Hello"))
    fresh.list()
    fresh.list()
    assert reads.heads == [SESSION_ID] * 2


def test_only_what_changed_is_read(
    settled: CachedListing, directory: Path, reads: Reads, make_session: MakeSession
) -> None:
    session = make_session("Hello")
    write(directory, session)
    write(directory, make_session("Other", session_id="0123456789"))
    settled.list()
    reads.heads.clear()
    write(directory, with_metadata(session, now=LATER, model="other"))
    assert [item.model for item in settled.list().sessions] == ["other", "qwen3:14b"]
    assert reads.heads == [SESSION_ID]


def test_a_change_that_keeps_size_and_time_is_seen(
    settled: CachedListing, directory: Path, make_session: MakeSession
) -> None:
    path = write(directory, make_session("Hello"))
    status = path.stat()
    assert settled.list().sessions[0].preview == "Hello"
    other = directory / "other"
    other.write_bytes(encode(make_session("World")))
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)
    assert settled.list().sessions[0].preview == "World"


def test_what_was_removed_is_gone(
    settled: CachedListing, directory: Path, make_session: MakeSession
) -> None:
    path = write(directory, make_session("Hello"))
    write(directory, make_session("Other", session_id="0123456789"))
    assert len(settled.list().sessions) == 2
    path.unlink()
    assert [item.session_id for item in settled.list().sessions] == ["0123456789"]
    (directory / "0123456789.json").unlink()
    directory.rmdir()
    assert settled.list().sessions == ()


@pytest.mark.parametrize("tail", [b"", b"\0" * 4096, b'\n    }\n  ],\n  "x": {'])
def test_a_whole_head_does_not_hide_a_broken_end(
    settled: CachedListing, directory: Path, make_session: MakeSession, tail: bytes
) -> None:
    path = write(directory, make_session("Hello", "x" * 1000))
    path.write_bytes(path.read_bytes()[:-500] + tail)
    assert settled.list().sessions == ()
    assert settled.list().unreadable[0].file == path.name


def test_equal_times_are_ordered_by_id(
    settled: CachedListing, directory: Path, make_session: MakeSession
) -> None:
    for number in (3, 1, 2):
        write(directory, make_session("Hello", session_id=f"{number:010x}"))
    assert [int(item.session_id) for item in settled.list().sessions] == [3, 2, 1]


def test_threads_may_list_at_once(
    settled: CachedListing, directory: Path, make_session: MakeSession
) -> None:
    for number in range(50):
        write(directory, make_session("Hello", session_id=f"{number:010x}"))
    counts: list[int] = []

    def work() -> None:
        counts.extend(len(settled.list().sessions) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(50, 60):
        write(directory, make_session("Hello", session_id=f"{number:010x}"))
    for thread in threads:
        thread.join()
    assert len(counts) == 80
    assert min(counts) >= 50
    assert len(settled.list().sessions) == 60


def test_one_change_among_many_takes_its_place(
    settled: CachedListing, directory: Path, make_session: MakeSession
) -> None:
    def at(minute: int) -> str:
        return f"2026-11-21T10:{minute:02}:00.000000+00:00"

    made = [
        make_session("Hello", session_id=f"{number:010x}", updated_at=at(number))
        for number in range(40)
    ]
    for session in made:
        write(directory, session)
    settled.list()
    for number, minute in ((3, 50), (35, 0), (20, 20), (7, 8)):
        made[number] = with_metadata(made[number], now=at(minute), model="other")
        write(directory, made[number])
        (directory / f"{made.pop().session_id}.json").unlink()
        expected = sorted(
            (session.metadata for session in made),
            key=lambda metadata: (metadata.updated_at, metadata.session_id),
            reverse=True,
        )
        assert list(settled.list().sessions) == expected


@pytest.fixture
def listed(settled: CachedListing, directory: Path, make_session: MakeSession) -> CachedListing:
    """Return a listing of three sessions that it has read."""
    for number in range(3):
        write(directory, make_session("Hello", session_id=f"{number:010x}"))
    assert len(settled.list().sessions) == 3
    return settled


def test_edits_in_place_are_seen(
    listed: CachedListing, directory: Path, make_session: MakeSession
) -> None:
    changed = make_session("World", session_id=f"{1:010x}")
    write(directory, changed)
    assert changed.metadata in listed.list().sessions
    assert len(listed.list().sessions) == 3


def test_what_comes_and_goes_is_seen(
    listed: CachedListing, directory: Path, make_session: MakeSession
) -> None:
    write(directory, make_session("New"))
    assert len(listed.list().sessions) == 4
    (directory / f"{SESSION_ID}.json").unlink()
    (directory / f"{0:010x}.json").unlink()
    assert len(listed.list().sessions) == 2


def test_a_file_that_goes_while_it_is_read_is_gone_alone(
    listed: CachedListing,
    directory: Path,
    make_session: MakeSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write(directory, make_session("World", session_id=f"{1:010x}"))
    read_head = listing.read_head

    def remove_and_read(*arguments: Any) -> object:
        path.unlink(missing_ok=True)
        return read_head(*arguments)

    monkeypatch.setattr(listing, "read_head", remove_and_read)
    assert len(listed.list().sessions) == 2


def test_a_listing_that_fails_can_be_asked_again(
    listed: CachedListing,
    directory: Path,
    make_session: MakeSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(directory, make_session("New"))
    (directory / f"{1:010x}.json").write_text("broken")

    def no_more_files(*_: object, **__: object) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(listing, "read_regular", no_more_files)
        with pytest.raises(OSError, match="open files"):
            listed.list()
    assert len(listed.list().sessions) == 3
    assert len(listed.list().unreadable) == 1


def test_those_who_ask_while_files_are_looked_at_share_the_next_look(
    directory: Path, make_session: MakeSession
) -> None:
    write(directory, make_session("Hello"))
    looks: list[int] = []
    is_looking, goes_on = threading.Event(), threading.Event()

    def look() -> int:
        looks.append(1)
        is_looking.set()
        goes_on.wait(60)
        return time.time_ns()

    cached = CachedListing(directory, size_limit=1 << 20, clock_ns=look)
    found: list[int] = []

    def ask() -> None:
        found.append(len(cached.list().sessions))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    threads[0].start()
    assert is_looking.wait(60)
    write(directory, make_session("World", session_id=f"{1:010x}"))
    for thread in threads[1:]:
        thread.start()
    while not all(_is_asking(thread) for thread in threads):
        time.sleep(0.001)
    goes_on.set()
    for thread in threads:
        thread.join()
    assert found == [2] * 20
    assert len(looks) < 5  # two, or one more for each that had not asked yet


def _is_asking(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_code is CachedListing.list.__code__:
            return True
        frame = frame.f_back
    return False
