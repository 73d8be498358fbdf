"""Files of ours are known by their stamps: whatever others do to a file, it does not go unseen."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessions_app.store.stamps import Stamp, bears, renamed, stamped
from tests.unit.sessions_app.file_times import await_tick


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.json"


def write(path: Path, data: bytes = b"some words") -> Stamp:
    """Write a file of ours, and return its stamp."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(data)
    descriptor = os.open(temporary, os.O_RDWR)
    stamp = stamped(descriptor)
    os.close(descriptor)
    temporary.replace(path)
    stamp = renamed(stamp, str(path))
    assert stamp is not None
    return stamp


def test_a_file_that_nobody_touched_bears_its_stamp(path: Path) -> None:
    stamp = write(path)
    assert path.read_bytes() == b"some words"
    assert bears(str(path), stamp)


def in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"SOME")


def appended(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"")
        file.write(b"!")


def cut(path: Path) -> None:
    os.truncate(path, 4)


def cut_and_written_again(path: Path) -> None:
    path.write_bytes(b"some words")


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"some words")
    other.replace(path)


def replaced_with_its_time(path: Path) -> None:
    was = path.stat()
    replaced(path)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def written_and_its_time_set_back(path: Path) -> None:
    was = path.stat()
    await_tick()
    in_place(path)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def linked(path: Path) -> None:
    was = path.rename(path.with_name("was"))
    path.symlink_to(was)


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    "change",
    [
        in_place,
        appended,
        cut,
        cut_and_written_again,
        replaced,
        replaced_with_its_time,
        written_and_its_time_set_back,
        linked,
        gone,
    ],
)
def test_whatever_others_do_is_seen_in_the_same_moment_too(
    path: Path, change: Callable[[Path], None]
) -> None:
    for _ in range(20):
        stamp = write(path)
        change(path)
        assert not bears(str(path), stamp)
        path.unlink(missing_ok=True)


def test_the_states_of_one_file_have_different_stamps(path: Path) -> None:
    stamps = [write(path, b"of one length") for _ in range(100)]
    assert len({stamp.written_ns for stamp in stamps}) == 100
    assert [bears(str(path), stamp) for stamp in stamps] == [False] * 99 + [True]


def test_a_folder_that_keeps_seconds_gives_no_stamps(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_time = os.utime

    def coarse(where: Any, *, ns: tuple[int, int]) -> None:
        set_time(where, ns=(ns[0] // 10**9 * 10**9, ns[1] // 10**9 * 10**9))

    path.write_bytes(b"some words")
    with path.open("r+b") as file:
        monkeypatch.setattr(os, "utime", coarse)
        assert stamped(file.fileno()) is None
        monkeypatch.setattr(os, "utime", lambda *_, **__: os.stat("/nowhere"))
        assert stamped(file.fileno()) is None


def test_a_file_that_was_overtaken_has_no_stamp(path: Path) -> None:
    stamp = write(path)
    assert renamed(stamp, str(path)) == stamp
    in_place(path)
    assert renamed(stamp, str(path)) is None
    gone(path)
    assert renamed(stamp, str(path)) is None
    assert renamed(None, str(path)) is None
