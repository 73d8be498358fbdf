"""What every log of lines does, whoever uses it: the change log, calls, saves, usage."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sessions_app.store.append_log import AppendLog, Position
from sessions_app.store.atomic import sweep_temporary_files

SMALL = 200

APPEND_MANY = """
import sys
from sessions_app.store.append_log import AppendLog

log = AppendLog(sys.argv[1], most_bytes=int(sys.argv[3]))
for number in range(300):
    log.append(f"{sys.argv[2]} {number}\\n".encode())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "log"


def bounded(path: Path, **options: object) -> AppendLog:
    return AppendLog(path, **{"most_bytes": SMALL, **options})  # type: ignore[arg-type]


def texts(log: AppendLog, after: Position, most: int = 1000) -> list[bytes] | None:
    found = log.read(after, most)
    return None if found is None else [line for line, _ in found]


@pytest.mark.parametrize("most_bytes", [None, SMALL])
def test_lines_of_all_writers_are_read_in_order(path: Path, most_bytes: int | None) -> None:
    logs = [AppendLog(path, most_bytes=most_bytes) for _ in range(2)]
    assert logs[0].all() == []
    for number in range(4):
        logs[number % 2].append(f"{number}\n".encode())
    assert logs[1].all() == [b"0", b"1", b"2", b"3"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_reader_goes_on_where_it_was(path: Path) -> None:
    writer, reader = bounded(path), bounded(path)
    start = reader.start()
    writer.append(b"one\n", b"two\n")
    found = reader.read(start, 1)
    assert found is not None
    [(line, place)] = found
    assert line == b"one"
    assert texts(reader, place) == [b"two"]
    assert texts(reader, reader.end()) == []
    assert bounded(path).start() == reader.end()


def test_a_full_file_is_followed_by_another_and_both_are_read(path: Path) -> None:
    log = bounded(path)
    start = log.start()
    lines = [f"{number:09}".encode() for number in range(25)]
    for line in lines:
        log.append(line + b"\n")
    assert log.end().log != start.log
    assert texts(log, start) == lines
    assert texts(log, start, 3) == lines[:3]
    assert log.all() == lines
    for line in lines:
        log.append(line + b"\n")
    assert log.read(start, 10) is None
    assert sum(file.stat().st_size for file in path.parent.iterdir()) < 3 * SMALL
    log.remove()
    assert list(path.parent.iterdir()) == []


def test_a_position_that_the_log_does_not_have_is_not_known(path: Path) -> None:
    log = bounded(path)
    assert log.read(Position("0" * 16, 34), 10) is None
    start = log.start()
    log.append(b"one\n")
    for offset in (0, 33, start.offset + 1, 10**19):
        assert log.read(start._replace(offset=offset), 10) is None


def test_a_log_of_another_epoch_is_not_continued(path: Path) -> None:
    before = bounded(path, epoch="aaaaaaaa")
    start = before.start()
    before.append(b"one\n")
    after = bounded(path, epoch="bbbbbbbb")
    assert after.start().log.startswith("bbbbbbbb")
    assert texts(after, start) == [b"one"]


def test_a_log_that_may_not_be_created_is_left_missing(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bounded(path).append(b"one\n", creates=False)
    assert not path.parent.exists()


def test_a_line_that_comes_too_late_for_a_file_is_in_the_next_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = bounded(path)
    log.append(b"x" * (SMALL - 50) + b"\n")
    write = os.write

    def slowly(descriptor: int, line: bytes) -> int:
        monkeypatch.undo()
        bounded(path).append(b"y" * 50 + b"\n")  # another process, with which the file is full
        return write(descriptor, line)

    monkeypatch.setattr(os, "write", slowly)
    log.append(b"late\n")
    assert path.read_bytes().endswith(b"\nlate\n")


def test_a_line_that_was_cut_off_costs_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AppendLog(path)
    log.append(b"one\n")
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:2]))
        with pytest.raises(OSError, match="no space"):
            log.append(b"two\n")
    assert log.all() == [b"one"]
    log.append(b"three\n")
    assert log.all() == [b"one", b"tw", b"three"]


def test_lines_that_are_too_long_are_skipped(path: Path) -> None:
    log = AppendLog(path, line_bytes=1000)
    log.append(b"x" * 600_000 + b"\n", b"one\n")
    assert [line for line, _ in log.lines()][-1] == b"one"
    assert all(len(line) < 600_000 for line, _ in log.lines())


@pytest.mark.parametrize("content", [b"", b"\0" * 60, b"one\n" * 10])
def test_a_file_without_a_header_is_kept_as_the_one_before(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    log = bounded(path)
    start = log.start()
    log.append(b"two\n")
    assert texts(log, start) == [b"two"]
    assert log.all() == [*content.split(b"\n")[:-1], b"two"]


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
    for log in (bounded(path), AppendLog(path)):
        assert log.all() == []
        assert list(log.lines()) == []
        with pytest.raises(OSError):
            log.append(b"one\n")
    with pytest.raises(FileNotFoundError):
        bounded(path).start()
    assert target.read_bytes() == b""


def test_a_file_that_cannot_be_kept_is_replaced_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = bounded(path)
    start = log.start()
    replace, calls = os.replace, []

    def fail_once(source: str, target: str) -> None:
        calls.append(source)
        if len(calls) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_once)
    log.append(b"x" * SMALL + b"\n")
    assert log.end().log != start.log
    assert log.read(start, 10) is None
    assert sweep_temporary_files(path.parent, -60) == 1


def test_an_open_file_can_be_asked_whether_it_is_there(path: Path) -> None:
    with_file = AppendLog(path).open()
    assert with_file.is_there
    path.unlink()
    assert not with_file.is_there
    with_file.close()
    with_file.close()


@pytest.mark.parametrize("most_bytes", [10_000, 1 << 20])
def test_writers_in_several_processes_lose_no_line(path: Path, most_bytes: int) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", APPEND_MANY, str(path), name, str(most_bytes)])
        for name in "ab"
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    lines = list(dict.fromkeys(AppendLog(path, most_bytes=most_bytes).all()))
    for name in "ab":
        numbers = [int(line[2:]) for line in lines if line.startswith(name.encode())]
        assert numbers == list(range(300 - len(numbers), 300))


def test_threads_do_not_tear_lines(path: Path) -> None:
    log = AppendLog(path)

    def write(line: bytes) -> None:
        for _ in range(50):
            log.append(line)

    lines = [name * 500 + b"\n" for name in (b"a", b"b", b"c")]
    threads = [threading.Thread(target=write, args=(line,)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A writer that sees half a line of another begins with a line break: that line is empty.
    written = [line for line in log.all() if line]
    assert sorted(written) == sorted(line[:-1] for line in lines for _ in range(50))
