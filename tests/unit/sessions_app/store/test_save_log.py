"""The log of saves: what other processes saved is known, or known not to be known."""

import os
from pathlib import Path

import pytest

from sessions_app.store.save_log import MOST_READ, STALE_SECONDS, SaveLog

A, B = "aaaaaaaaaa", "bbbbbbbbbb"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".locks" / "saves"


def logs(path: Path, most_bytes: int = 1000) -> tuple[SaveLog, SaveLog]:
    """Return the log as two processes have it."""
    return SaveLog(str(path), most_bytes=most_bytes), SaveLog(str(path), most_bytes=most_bytes)


def test_what_was_saved_since_is_known(path: Path) -> None:
    writer, reader = logs(path)
    assert reader.read(None) is None
    writer.note(A)
    first = reader.read(None)
    assert first is not None
    assert first.session_ids is None
    nothing = reader.read(first)
    assert nothing is not None
    assert nothing.session_ids == set()
    for session_id in (B, A, B):
        writer.note(session_id)
    some = reader.read(first)
    assert some is not None
    assert some.session_ids == {A, B}
    assert some.time_ns >= first.time_ns


def test_a_full_log_is_begun_anew(path: Path) -> None:
    writer, other = logs(path, most_bytes=50)
    other.note(A)
    known = other.read(None)
    for _ in range(4):
        writer.note(A)
    other.note(B)  # into the one that was begun, although it had opened the other one
    later = other.read(known)
    assert later is not None
    assert later.session_ids is None
    other.note(A)
    last = other.read(later)
    assert last is not None
    assert last.session_ids == {A}
    assert path.stat().st_size <= 50


def test_a_log_that_was_removed_is_made_again(path: Path) -> None:
    writer, reader = logs(path)
    writer.note(A)
    known = reader.read(None)
    path.unlink()
    assert reader.read(known) is None
    writer.note(B)
    again = reader.read(known)
    assert again is not None
    assert again.session_ids is None


def test_many_saves_are_not_known(path: Path) -> None:
    writer, reader = logs(path, most_bytes=1 << 20)
    writer.note(A)
    known = reader.read(None)
    for _ in range(MOST_READ + 1):
        writer.note(B)
    later = reader.read(known)
    assert later is not None
    assert later.session_ids is None


@pytest.mark.parametrize("damaged", [b"", b"aaaaaa", b"\0" * 22])
def test_a_damaged_log_is_replaced(path: Path, damaged: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(damaged)
    writer, reader = logs(path)
    writer.note(A)
    known = reader.read(None)
    writer.note(B)
    later = reader.read(known)
    assert later is not None
    assert later.session_ids == {B}


def test_lines_that_are_none_are_not_known(path: Path) -> None:
    writer, reader = logs(path)
    writer.note(A)
    known = reader.read(None)
    with path.open("ab") as file:
        file.write(b"../../../x\n")
    later = reader.read(known)
    assert later is not None
    assert later.session_ids is None


@pytest.mark.parametrize("kind", ["directory", "link", "fifo"])
def test_something_else_in_its_place_is_no_log(path: Path, tmp_path: Path, kind: str) -> None:
    path.parent.mkdir()
    target = tmp_path / "target"
    target.write_bytes(b"")
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(target)
    else:
        os.mkfifo(path)
    writer, reader = logs(path)
    assert reader.read(None) is None or kind == "fifo"
    writer.note(A)
    assert target.read_bytes() == b""


def test_what_a_process_left_that_died_while_it_made_a_log_is_swept(path: Path) -> None:
    log = SaveLog(str(path))
    assert log.sweep() == 0  # there is no directory yet
    log.note(A)
    being_made, left = (path.with_name(f".saves.{digit * 16}.tmp") for digit in "01")
    for torn in (being_made, left):
        torn.touch()
    os.utime(left, (0, path.stat().st_mtime - 2 * STALE_SECONDS))
    assert log.sweep() == 1
    assert sorted(os.listdir(path.parent)) == [being_made.name, "saves"]
