import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from sessions_app.atomic import UnreadableFileError, read_regular, write_atomically
from sessions_app.errors import StorageFull


def test_what_was_written_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert read_regular(path, limit=3) == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["file"]


def test_an_exclusive_write_never_replaces_anything(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"one", exclusive=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for taken in (path, tmp_path / "dangling"):
        with pytest.raises(FileExistsError):
            write_atomically(taken, b"two", exclusive=True)
    assert path.read_bytes() == b"one"
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file"]


def test_a_write_replaces_a_link_and_leaves_its_target_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"target")
    (tmp_path / "link").symlink_to(target)
    write_atomically(tmp_path / "link", b"new")
    assert target.read_bytes() == b"target"
    assert not (tmp_path / "link").is_symlink()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with monkeypatch.context() as patched:  # over before whoever watches os.write looks away
        patched.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:1]))
        write_atomically(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"whole")
    read = os.read
    with monkeypatch.context() as patched:
        patched.setattr(os, "read", lambda descriptor, size: read(descriptor, 1))
        assert read_regular(tmp_path / "file", limit=5) == b"whole"
        with pytest.raises(UnreadableFileError, match="larger"):
            read_regular(tmp_path / "file", limit=4)


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        with pytest.raises(StorageFull):
            write_atomically(tmp_path / "file", b"data", exclusive=True)
    assert os.listdir(tmp_path) == []


def test_another_failure_is_not_mistaken_for_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        write_atomically(tmp_path / "file" / "below", b"data")


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        read_regular(tmp_path / "file", limit=10)
    assert not isinstance(missing.value, UnreadableFileError)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"data")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        reasons = {}
        for name in ("link", "folder", "pipe", "socket"):
            with pytest.raises(UnreadableFileError) as refused:
                read_regular(tmp_path / name, limit=10)
            reasons[name] = refused.value.reason
    assert reasons == {
        "link": "a symbolic link",
        "folder": "not a regular file",
        "pipe": "not a regular file",
        "socket": "not a regular file",
    }


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", limit=5) == b"12345"
    with pytest.raises(UnreadableFileError, match="larger than 4 bytes"):
        read_regular(tmp_path / "file", limit=4)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    before = os.open(tmp_path, os.O_RDONLY)
    os.close(before)
    read_regular(tmp_path / "file", limit=5)
    with pytest.raises(UnreadableFileError):
        read_regular(tmp_path, limit=5)
    write_atomically(tmp_path / "other", b"data")
    after = os.open(tmp_path, os.O_RDONLY)
    os.close(after)
    assert after == before
