"""What a file system must be able to do is tried, and what it can't is named."""

import errno
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessions_app.store.file_system import FileSystemReport, probe_file_system


def fails(number: int) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return call


def test_this_file_system_can_do_it_and_nothing_is_left(tmp_path: Path) -> None:
    assert probe_file_system(tmp_path) == FileSystemReport()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("function", "replacement", "missing"),
    [
        ("os.link", fails(errno.EPERM), "hard links (operation not permitted)"),
        ("os.link", lambda *_, **__: None, "hard links (they replace what is there)"),
        ("os.symlink", fails(errno.EOPNOTSUPP), "symbolic links (operation not supported)"),
        ("os.readlink", lambda _: "turn", "symbolic links (they are changed)"),
        ("fcntl.flock", fails(errno.ENOLCK), "locks (flock) (no locks available)"),
        (
            "fcntl.flock",
            lambda *_: None,
            "locks (flock) (a held lock is given to another one too)",
        ),
        ("os.replace", fails(errno.ETXTBSY), "renaming over an open file (text file busy)"),
        (
            "sessions_app.store.file_system.sync_directory",
            fails(errno.EINVAL),
            "syncing a directory (invalid argument)",
        ),
    ],
)
def test_what_does_not_work_is_named_and_nothing_is_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    replacement: Callable[..., Any],
    missing: str,
) -> None:
    monkeypatch.setattr(function, replacement)

    report = probe_file_system(tmp_path)

    monkeypatch.undo()
    assert report.missing == (missing,)
    assert list(tmp_path.iterdir()) == []


def test_locks_that_keep_others_from_reading_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SMB has them."""
    locked = set()
    flock, pread = fcntl.flock, os.pread

    def mandatory(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        if operation & fcntl.LOCK_EX:
            locked.add(os.fstat(descriptor).st_ino)

    def read(descriptor: int, size: int, offset: int) -> bytes:
        if os.fstat(descriptor).st_ino in locked:
            raise PermissionError(errno.EACCES, "Permission denied")
        return pread(descriptor, size, offset)

    monkeypatch.setattr("fcntl.flock", mandatory)
    monkeypatch.setattr("os.pread", read)

    assert probe_file_system(tmp_path).missing == (
        "locks (flock) (a locked file can't be read by others)",
    )


@pytest.mark.parametrize(
    ("step", "told"),
    [(1, 0), (10_000_000, 0), (1_000_000_000, 1_000_000_000), (2_000_000_000, 2_000_000_000)],
)
def test_coarse_times_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, told: int
) -> None:
    utime = os.utime

    def coarse(path: str, *, ns: tuple[int, int]) -> None:
        utime(path, ns=(ns[0] // step * step, ns[1] // step * step))

    monkeypatch.setattr("os.utime", coarse)

    assert probe_file_system(tmp_path).coarse_ns == told


def test_a_full_disk_says_nothing_about_its_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.symlink", fails(errno.ENOSPC))

    assert probe_file_system(tmp_path) == FileSystemReport()


def test_what_a_killed_probe_left_is_removed_and_a_running_one_is_not(tmp_path: Path) -> None:
    killed, running = tmp_path / ".probe-killed", tmp_path / ".probe-running"
    for directory in (killed, running):
        directory.mkdir()
        (directory / "file").touch()
    os.utime(killed, (time.time() - 120,) * 2)

    probe_file_system(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [".probe-running"]
