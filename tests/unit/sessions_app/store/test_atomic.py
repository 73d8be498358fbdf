import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from sessions_app.errors import StorageFull, StorageUnavailable
from sessions_app.store import atomic
from sessions_app.store.atomic import (
    UnreadableFileError,
    make_private_directory,
    read_regular,
    sweep_temporary_files,
    write_atomically,
)


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
    with pytest.raises(OSError, match="name too long"):
        write_atomically(tmp_path / ("x" * 300), b"data")


def test_a_file_in_the_place_of_a_directory_is_a_storage_that_can_not_be_used(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageUnavailable, match="not a directory"):
        write_atomically(tmp_path / "file" / "below", b"data")
    with pytest.raises(NotADirectoryError, match="file"):
        make_private_directory(tmp_path / "file")
    with pytest.raises(NotADirectoryError):  # its content is not at fault
        read_regular(tmp_path / "file" / "below", limit=10)


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


def test_a_new_directory_is_on_disk_before_what_is_kept_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = _record_steps(tmp_path, monkeypatch)
    write_atomically(tmp_path / "a" / "b" / "file", b"data")
    assert steps == ["mkdir a", "sync .", "mkdir a/b", "sync a", "replace a/b/file", "sync a/b"]


def test_a_directory_of_what_dies_with_the_machine_is_not_waited_for_but_its_parents_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = _record_steps(tmp_path, monkeypatch)
    write_atomically(tmp_path / "a" / "b" / "file", b"data", durable=False)
    assert steps == ["mkdir a", "sync .", "mkdir a/b", "replace a/b/file"]


def test_a_directory_in_a_parent_that_can_not_be_read_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(directory: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory)

    with monkeypatch.context() as patched:
        patched.setattr(atomic, "sync_directory", forbidden)
        make_private_directory(tmp_path / "a")
    assert (tmp_path / "a").is_dir()


def test_a_parent_that_takes_no_directory_is_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "at all")
    for parent in (tmp_path / "dangling", Path("/proc")):  # whatever a system has at /proc
        with pytest.raises(OSError, match=r"nope|dangling"):
            make_private_directory(parent / "nope" / "deep")


def test_temporary_files_of_dead_writers_are_swept_and_nothing_else(tmp_path: Path) -> None:
    tag = "0123456789abcdef"
    spare = ".a1b2c3d4e5.json.spare"  # of an earlier release
    left = [f".helpful.md.{tag}.tmp", f".{'x' * 64}.{tag}.tmp", spare]
    kept = ["helpful.md", ".hidden", "notes.tmp", f".helpful.md.{tag[:-1]}.tmp", f"{tag}.tmp"]
    for name in left + kept:
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (0, 0))
    young, link, directory = (f".{name}.md.{tag}.tmp" for name in ("young", "link", "directory"))
    (tmp_path / young).write_bytes(b"")
    (tmp_path / link).symlink_to("helpful.md")
    (tmp_path / directory).mkdir()
    os.utime(tmp_path / directory, (0, 0))

    assert sweep_temporary_files(tmp_path, 3600) == len(left)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, young, link, directory])
    assert sweep_temporary_files(tmp_path / "missing", 3600) == 0


def test_what_a_killed_writer_leaves_has_a_name_that_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        patched.setattr(os, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            write_atomically(tmp_path / "helpful.md", b"data")
    assert len(os.listdir(tmp_path)) == 1
    assert sweep_temporary_files(tmp_path, older_than_seconds=-1) == 1


def _record_steps(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note directories that are made, files that are put in place, directories that are synced."""
    steps: list[str] = []

    def relative(path: object) -> str:
        return os.path.relpath(str(path), root)

    def note(module: object, name: str, said: str, of: int = 0) -> None:
        original = getattr(module, name)

        def noting(*arguments: object, **options: object) -> object:
            result = original(*arguments, **options)
            steps.append(f"{said} {relative(arguments[of])}")
            return result

        monkeypatch.setattr(module, name, noting)

    note(os, "mkdir", "mkdir")
    note(os, "replace", "replace", of=1)
    note(atomic, "sync_directory", "sync")
    return steps


def test_the_mark_of_windows_editors_is_not_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbf{}")
    assert read_regular(path, limit=10) == b"{}"
