"""What holds for every file that a living process holds: owners, keys, the worker, metrics."""

import fcntl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessions_app.store.holder import Holder, held_if_free, is_held

IN_A_PROCESS = """
import sys
from sessions_app.store.holder import Holder
holder = {make}
print("held", flush=True)
sys.stdin.read()
"""
MAKERS = ("take", "create", "join")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "held.lock"


def make(how: str, path: Path) -> Holder:
    if how == "join":
        return Holder.join(path, alone=lambda: None)
    holder = Holder.take(path) if how == "take" else Holder.create(path)
    assert holder is not None
    return holder


@contextmanager
def held_by_another_process(path: Path, how: str) -> Iterator[subprocess.Popen[bytes]]:
    options = ", alone=print" if how == "join" else ""
    program = IN_A_PROCESS.format(make=f"Holder.{how}(sys.argv[1]{options})")
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() != b"held\n":
            assert process.poll() is None
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", MAKERS)
def test_a_file_is_held_until_it_is_released(path: Path, how: str) -> None:
    assert is_held(path) is None
    holder = make(how, path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Holder.take(path) is None
    with held_if_free(path) as is_free:
        assert is_free is False
    holder.release()
    assert is_held(path) is False


@pytest.mark.parametrize("how", MAKERS)
def test_a_file_is_held_until_its_process_ends_however_it_does(path: Path, how: str) -> None:
    with held_by_another_process(path, how) as process:
        assert Holder.take(path) is None
        process.kill()
        process.wait()
        assert is_held(path) is False
    make("take", path).release()


@pytest.mark.parametrize("how", ["take", "create"])
def test_a_file_that_one_process_holds_is_seen_by_all(path: Path, how: str) -> None:
    holder = make(how, path)
    assert is_held(path) is True
    with held_if_free(path, shared=True) as is_free:
        assert is_free is False
    holder.release()


@pytest.mark.parametrize("how", MAKERS)
def test_a_holder_knows_whether_its_file_is_in_place(path: Path, how: str) -> None:
    holder = make(how, path)
    assert holder.is_in_place
    path.unlink()
    assert not holder.is_in_place
    path.touch()
    assert not holder.is_in_place
    holder.release()


@pytest.mark.parametrize("how", ["take", "join"])
def test_a_missing_directory_is_made_for_its_owner_alone(tmp_path: Path, how: str) -> None:
    path = tmp_path / "state" / "held.lock"
    make(how, path).release()
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_only_a_new_file_is_created(path: Path) -> None:
    path.touch()
    with pytest.raises(FileExistsError):
        Holder.create(path)


def test_what_is_written_replaces_what_was(path: Path) -> None:
    holder = Holder.create(path)
    holder.write(b"a long text")
    holder.write(b"short")
    assert path.read_bytes() == b"short"
    holder.release()


def test_who_joins_learns_whether_it_is_alone(path: Path) -> None:
    calls: list[str] = []
    with held_by_another_process(path, "join"):
        second = Holder.join(path, alone=lambda: calls.append("second"))
        assert calls == []
    second.release()
    Holder.join(path, alone=lambda: calls.append("third")).release()
    assert calls == ["third"]


def test_a_file_is_tried_without_being_created_or_followed(path: Path, tmp_path: Path) -> None:
    for shared in (False, True):
        with held_if_free(path, shared=shared) as is_free:
            assert is_free is None
        assert not path.exists()
        for other in (tmp_path, path):
            path.symlink_to(other)
            with held_if_free(path, shared=shared) as is_free:
                assert is_free is None
            path.unlink()
    assert is_held(tmp_path) is None


def test_two_may_look_at_a_free_file_at_once(path: Path) -> None:
    path.touch()
    with held_if_free(path, shared=True) as is_free, held_if_free(path, shared=True) as also_free:
        assert is_free
        assert also_free
    with held_if_free(path) as is_free:
        assert is_free
        assert is_held(path) is True


def removed_before_its_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the file just before it is locked the next time."""
    lock: Callable[[int, int], None] = fcntl.flock

    def remove_first(descriptor: int, kind: int) -> None:
        monkeypatch.undo()
        path.unlink()
        lock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", remove_first)


def test_a_file_that_is_removed_while_it_is_tried_is_not_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    removed_before_its_lock(path, monkeypatch)
    with held_if_free(path) as is_free:
        assert is_free is None


def test_a_file_that_is_removed_while_it_is_taken_is_not_held(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    removed_before_its_lock(path, monkeypatch)
    assert Holder.take(path) is None
    make("take", path).release()


def test_a_new_file_that_a_sweeper_removes_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed_before_its_lock(path, monkeypatch)
    holder = Holder.create(path)
    assert holder.is_in_place
    holder.release()
