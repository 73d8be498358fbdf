"""Files that grow at their ends: what is new is written, and nobody ever sees half of it."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.errors import StorageFull
from sessions_app.store import growing
from sessions_app.store.growing import (
    FileChangedError,
    Range,
    Replaced,
    Shared,
    drop_spare,
    is_stale,
    replace_grown,
    spare_of,
)
from sessions_app.store.stamps import bears
from tests.unit.sessions_app.file_times import gives_leases

OLD = b"".join(b"%07d " % number for number in range(125_000))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a large file of ours."""
    return large_file(tmp_path)


@pytest.fixture
def leased(tmp_path: Path) -> None:
    """Skip where the file system gives no leases."""
    if not gives_leases(tmp_path):
        pytest.skip("no leases here")


@pytest.fixture
def small_pieces() -> Iterator[None]:
    """Have everything compared in tiny pieces, so that few bytes are many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "_COMPARED", 16)
        patch.setattr(growing, "_BLOCK", 4)
        yield


def large_file(directory: Path, data: bytes = OLD) -> str:
    path = f"{directory}/session.json"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, data)
    os.close(descriptor)
    return path


def read(path: str) -> bytes:
    return Path(path).read_bytes()


def grown(number: int) -> list[bytes | memoryview]:
    """Return a file that is longer with every number; its head changes, and its end."""
    return [b"head %3d" % number, memoryview(OLD), b" and more" * number, b"}"]


@pytest.mark.usefixtures("leased")
def test_only_what_is_new_is_written(path: str) -> None:
    written = [replace_grown(path, grown(number)).written for number in range(6)]
    assert read(path) == b"".join(grown(5))
    assert min(written[:2]) > len(OLD)  # there was no spare, or one of another kind
    assert max(written[2:]) < 20_000


def shared_by(done: Replaced, number: int) -> Shared:
    """Return what the file that was replaced last, as ``grown``, has in common with the next."""
    assert done.stamp is not None
    head, *rest = grown(number)
    return Shared(done.stamp, head=len(head), until=len(head) + sum(map(len, rest[:-1])))


@pytest.fixture
def spare(path: str, leased: None) -> Shared:
    """Return what is known of the path's spare, the first of two files."""
    first = replace_grown(path, grown(1))
    replace_grown(path, grown(2))
    return shared_by(first, 1)


def must_not_be_read(*_: object) -> bytes:
    raise AssertionError("the spare was read")


def test_what_is_known_of_a_spare_is_not_read(
    path: str, spare: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pread", must_not_be_read)
    done = replace_grown(path, grown(3), shared=spare)
    assert read(path) == b"".join(grown(3))
    assert done.written < 100


def test_a_spare_with_a_head_of_another_length_is_compared(path: str, spare: Shared) -> None:
    longer = [b"a longer head", *grown(3)[1:]]
    replace_grown(path, longer, shared=spare)
    assert read(path) == b"".join(longer)


def test_a_spare_that_somebody_wrote_to_is_compared(path: str, spare: Shared) -> None:
    with Path(spare_of(path)).open("r+b") as file:
        file.seek(5000)
        file.write(b"edited")
    replace_grown(path, grown(3), shared=spare)
    assert read(path) == b"".join(grown(3))


def test_a_new_file_takes_what_stays_from_the_one_before(path: str) -> None:
    done = replace_grown(path, grown(1))
    assert done.stamp is not None
    head, old, *_ = grown(1)
    for take_spare_away in (True, False):
        if take_spare_away:
            drop_spare(path)
        stays = Range(path, done.stamp, len(head), len(old))
        done = replace_grown(path, [b"head   2", stays, b" and more}"])
        assert read(path) == b"head   2" + OLD + b" and more}"
        assert done.stamp is not None


@pytest.mark.parametrize("how", ["in place", "shorter", "another file", "gone"])
def test_a_file_that_others_change_meanwhile_is_left_as_they_left_it(path: str, how: str) -> None:
    done = replace_grown(path, grown(1))
    assert done.stamp is not None
    match how:
        case "in place":
            with Path(path).open("r+b") as file:
                file.write(b"HEAD")
        case "shorter":
            os.truncate(path, 10)
        case "another file":
            Path(path).unlink()
            large_file(Path(path).parent, b"another")
        case "gone":
            Path(path).unlink()
    left = read(path) if how != "gone" else None
    stays = Range(path, done.stamp, 8, len(OLD))
    with pytest.raises(FileChangedError):
        replace_grown(path, [b"head   2", stays, b"}"])
    assert (read(path) if how != "gone" else None) == left
    assert os.listdir(Path(path).parent) == ([] if left is None else [Path(path).name])


def test_a_spare_is_the_file_before(path: str) -> None:
    replace_grown(path, grown(1))
    replace_grown(path, grown(2))
    if os.path.exists(spare_of(path)):
        assert read(spare_of(path)) == b"".join(grown(1))
    drop_spare(path)
    drop_spare(path)
    assert os.listdir(Path(path).parent) == [Path(path).name]


def test_a_spare_is_stale_after_a_while(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_stale(spare_of(path))
    assert not is_stale(path)
    monkeypatch.setattr(growing, "SPARE_SECONDS", -1.0)
    assert is_stale(path)


def test_who_reads_the_file_goes_on_reading_what_it_was(path: str) -> None:
    """Also two writes later, when the file that is read is the spare."""
    readers = []
    for number in range(5):
        readers.append((os.open(path, os.O_RDONLY), read(path)))
        replace_grown(path, grown(number))
    for descriptor, was in readers:
        assert os.pread(descriptor, 2 * len(OLD), 0) == was
        os.close(descriptor)


def test_another_name_of_the_file_keeps_what_it_had(path: str) -> None:
    for number in range(4):
        snapshot = f"{path}.{number}"
        os.link(path, snapshot)
        was = read(path)
        replace_grown(path, grown(number))
        replace_grown(path, grown(number + 10))
        assert read(snapshot) == was


@pytest.mark.usefixtures("leased")
def test_who_opens_the_spare_meanwhile_waits_and_disturbs_nobody(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        replace_grown(path, grown(number))
    complete: Callable[..., int] = growing._complete
    opened: list[int] = []

    def disturbed(descriptor: int, parts: Any) -> int:
        (name,) = Path(path).parent.glob(".*.tmp")

        def open_it() -> None:
            try:
                os.open(name, os.O_RDONLY | os.O_NONBLOCK)
            except BlockingIOError as error:
                opened.append(error.errno)

        thread = threading.Thread(target=open_it)
        thread.start()
        thread.join()
        return complete(descriptor, parts)

    with monkeypatch.context() as patch:
        patch.setattr(growing, "_complete", disturbed)
        replace_grown(path, grown(3))
    assert opened == [errno.EWOULDBLOCK]
    assert read(path) == b"".join(grown(3))


@pytest.mark.parametrize("kind", ["symlink", "directory", "fifo", "public", "shorter", "empty"])
def test_whatever_stands_in_the_spares_place_is_replaced(path: str, kind: str) -> None:
    spare = Path(spare_of(path))
    other = Path(path).with_name("other")
    other.write_bytes(b"other")
    match kind:
        case "symlink":
            spare.symlink_to(other)
        case "directory":
            spare.mkdir()
        case "fifo":
            os.mkfifo(spare)
        case "public":
            spare.write_bytes(OLD)
            spare.chmod(0o644)
        case "shorter":
            spare.write_bytes(OLD[:1000])
        case "empty":
            spare.touch()
    for number in range(3):
        replace_grown(path, grown(number))
    assert read(path) == b"".join(grown(2))
    assert other.read_bytes() == b"other"
    assert os.stat(path).st_mode & 0o777 == 0o600


class Crash(BaseException):
    """The machine stands still."""


class DyingSystem:
    """Lets everything be done up to some step, and nothing after it, no cleaning up either.

    A step is a byte that is written, a name that changes, a length that does.
    """

    steps = ("write", "rename", "replace", "link", "unlink", "ftruncate", "fsync")

    def __init__(self, patch: pytest.MonkeyPatch, lives_for: int) -> None:
        self._left = lives_for
        for name in self.steps:
            patch.setattr(os, name, self._dying(name, getattr(os, name)))

    def _dying(self, name: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **how: Any) -> Any:
            if self._left <= 0:
                raise Crash
            self._left -= 1
            if name == "write":
                args = (args[0], args[1][:1])
            return do(*args, **how)

        return step


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("is_known", [False, True])
def test_a_crash_at_any_byte_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, is_known: bool
) -> None:
    files = [[b"1 head", b"some words. " * 5 + b"more. " * n, b"}"] for n in range(4)]
    for lives_for in range(1000):
        with TemporaryDirectory(dir=tmp_path) as folder:
            path = large_file(Path(folder), b"".join(files[0]))
            spare = replace_grown(path, files[1]).stamp
            replace_grown(path, files[2])
            until = len(b"".join(files[1][:2]))
            shared = Shared(spare, head=6, until=until) if is_known and spare else None
            with pytest.MonkeyPatch.context() as patch:
                DyingSystem(patch, lives_for)
                try:
                    replace_grown(path, files[3], shared=shared)
                    survived = True
                except Crash:
                    survived = False
            assert read(path) in (b"".join(files[2]), b"".join(files[3]))
            # Whatever was left behind, the next write is right.
            replace_grown(path, files[3], shared=shared)
            assert read(path) == b"".join(files[3])
            if survived:
                break
    assert lives_for > (12 if is_known else 20)


def test_a_full_disk_leaves_the_old_file_and_no_other(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        replace_grown(path, grown(number))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StorageFull):
            replace_grown(path, grown(3))
    assert read(path) == b"".join(grown(2))
    assert os.listdir(Path(path).parent) == [Path(path).name]
    replace_grown(path, grown(3))
    assert read(path) == b"".join(grown(3))


pieces = st.binary(max_size=60)
deeds = st.one_of(
    st.tuples(st.just("append"), pieces),
    st.tuples(st.just("write"), st.lists(pieces, min_size=1, max_size=4)),
    st.tuples(st.just("head"), pieces),
    st.tuples(st.sampled_from(["edit", "edit the spare"]), pieces),
    st.tuples(st.sampled_from(["hold", "snapshot", "forget the spare"]), st.none()),
)


def common(
    path: str, known: Replaced | None, before: list[bytes], parts: list[bytes]
) -> Shared | None:
    """Return what a file, which is the spare next time, has in common with what continues it."""
    if known is None or known.stamp is None or not bears(path, known.stamp):
        return None
    if parts[1 : len(before)] != before[1:]:
        return None
    return Shared(known.stamp, head=len(before[0]), until=sum(map(len, before)))


@settings(max_examples=3 * settings.default.max_examples)
@given(done=st.lists(deeds, max_size=12))
@pytest.mark.usefixtures("small_pieces")
def test_whatever_happens_in_between_the_file_is_what_was_written(
    done: list[tuple[str, Any]],
) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / "beside").mkdir()
        path = large_file(Path(folder), b"")
        parts: list[bytes] = [b"head", b"text"]
        held: list[tuple[int, bytes]] = []
        snapshots: list[tuple[str, bytes]] = []
        known: Replaced | None = None
        shared: Shared | None = None
        for deed, what in done:
            before = parts
            match deed:
                case "append":
                    parts = [*parts, what]
                case "write":
                    parts = what
                case "head":
                    parts = [what, *parts[1:]]
                case "edit":
                    Path(path).unlink()  # as other programs save
                    large_file(Path(folder), what)
                    continue
                case "edit the spare":
                    drop_spare(path)
                    os.rename(large_file(Path(folder) / "beside", what), spare_of(path))
                    continue
                case "hold":
                    held.append((os.open(path, os.O_RDONLY), read(path)))
                    continue
                case "snapshot":
                    snapshots.append((f"{path}.{len(snapshots)}", read(path)))
                    os.link(path, snapshots[-1][0])
                    continue
                case "forget the spare":
                    drop_spare(path)
                    continue
            now = common(path, known, before, parts)
            known = replace_grown(path, parts, durable=False, shared=shared if now else None)
            assert read(path) == b"".join(parts)
            shared = now
        for descriptor, was in held:
            assert os.pread(descriptor, 10_000, 0) == was
            os.close(descriptor)
        for name, was in snapshots:
            assert read(name) == was
