"""Every ``AttachmentStore`` keeps files by their contents, whole or not at all."""

import hashlib
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster_app.objects.attachments import ObjectAttachmentStore
from cluster_app.objects.store import ObjectStore
from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.store import AttachmentStore, StoredFile
from sessions_app.errors import (
    AttachmentNotFound,
    AttachmentTooLarge,
    StorageFull,
    ValidationFailed,
)
from tests.unit.sessions_app.attachments import images

PICTURE = images.png()
UNKNOWN = f"sha256:{'0' * 64}"
UPLOAD = """
import sys
import time
import tracemalloc
from pathlib import Path
from sessions_app.attachments.file_store import FileAttachmentStore
from cluster_app.objects.attachments import ObjectAttachmentStore
from cluster_app.objects.store import ObjectStore

place = sys.argv[1]
if "://" in place:
    store = ObjectAttachmentStore(ObjectStore(place), now=time.time)
else:
    store = FileAttachmentStore(Path(place))
tracemalloc.start()
writer = store.begin(max_bytes=1 << 25)
for _ in range(20 * 8):
    writer.write(b"x" * (1 << 17))
assert writer.finish().size == 20 << 20
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.fixture(params=["files", "objects"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], AttachmentStore]:
    if request.param == "files":
        return lambda: FileAttachmentStore(tmp_path / "attachments")
    url = request.getfixturevalue("object_url")
    # Times of objects are whole seconds.
    return lambda: ObjectAttachmentStore(ObjectStore(url), now=lambda: time.time() + 1)


@pytest.fixture
def store(make_store: Callable[[], AttachmentStore]) -> AttachmentStore:
    return make_store()


def kept(store: AttachmentStore, data: bytes, piece: int = 1 << 20) -> StoredFile:
    writer = store.begin(max_bytes=1 << 24)
    for start in range(0, len(data), piece):
        writer.write(data[start : start + piece])
    return writer.finish()


def test_a_file_is_named_by_its_bytes(store: AttachmentStore) -> None:
    found = kept(store, PICTURE, piece=7)
    assert found.id == f"sha256:{hashlib.sha256(PICTURE).hexdigest()}"
    assert (found.media_type, found.size, found.is_new) == ("image/png", len(PICTURE), True)
    assert found.width
    assert found.height
    assert store.read(found.id) == PICTURE


def test_the_same_bytes_are_kept_once(store: AttachmentStore) -> None:
    first, second = kept(store, PICTURE), kept(store, PICTURE)
    assert (first.id, first.is_new, second.is_new) == (second.id, True, False)


def test_another_process_reads_what_was_kept(
    store: AttachmentStore, make_store: Callable[[], AttachmentStore]
) -> None:
    found = kept(store, PICTURE)
    other = make_store()
    assert other.read(found.id) == PICTURE
    stat = other.stat(found.id)
    assert (stat.id, stat.media_type, stat.size) == (found.id, "image/png", len(PICTURE))
    assert (stat.width, stat.height, stat.is_new) == (found.width, found.height, False)


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 3, b"012"),
        (8, 9, b"89"),
        (3, None, b"3456789"),
        (10, 1, b""),
        (99, None, b""),
        (2, 0, b""),
    ],
)
def test_a_part_of_a_file_is_read(
    store: AttachmentStore, start: int, length: int | None, expected: bytes
) -> None:
    assert store.read(kept(store, b"0123456789").id, start, length) == expected


@pytest.mark.parametrize(
    "attachment_id",
    [UNKNOWN, "", "sha256:", "0" * 64, "sha256:../../etc/passwd", "sha256:" + "A" * 64],
)
def test_what_is_not_there_is_not_found(store: AttachmentStore, attachment_id: str) -> None:
    kept(store, PICTURE)
    for call in (store.stat, store.read, lambda one: store.renew([one])):
        with pytest.raises(AttachmentNotFound):
            call(attachment_id)


def test_a_file_that_is_too_large_is_refused_while_it_is_written(store: AttachmentStore) -> None:
    writer = store.begin(max_bytes=10)
    writer.write(b"0123456789")
    with pytest.raises(AttachmentTooLarge):
        writer.write(b"x")
    writer.abandon()
    assert kept(store, b"0123456789").is_new


@pytest.mark.parametrize("place", ["files", "objects"])
def test_20_mib_are_written_with_1_mib_of_memory(
    request: pytest.FixtureRequest, tmp_path: Path, place: str
) -> None:
    url = str(tmp_path) if place == "files" else request.getfixturevalue("object_url")
    run = subprocess.run(
        [sys.executable, "-c", UPLOAD, url], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 1 << 20


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the kernel refuse to write further into any file of this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more_is_told_and_leaves_nothing(
    store: AttachmentStore, tmp_path: Path
) -> None:
    writer = store.begin(max_bytes=1 << 24)
    writer.write(PICTURE)
    with files_of_at_most(1 << 20), pytest.raises(StorageFull):
        writer.write(b"x" * (1 << 21))
    writer.abandon()
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []
    assert kept(store, PICTURE).is_new


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"\x00\x01\x02", "neither an image"),
        (PICTURE[:20], "not a complete"),
        (images.png(40_000, 40_000), "40000 x 40000"),
    ],
)
def test_what_is_no_attachment_is_refused_and_leaves_nothing(
    store: AttachmentStore, data: bytes, said: str
) -> None:
    writer = store.begin(max_bytes=1000)
    writer.write(data)
    with pytest.raises(ValidationFailed, match=said):
        writer.finish()
    with pytest.raises(AttachmentNotFound):
        store.stat(f"sha256:{hashlib.sha256(data).hexdigest()}")


def test_what_is_being_written_is_not_there_yet(store: AttachmentStore) -> None:
    writer = store.begin(max_bytes=1000)
    writer.write(PICTURE)
    with pytest.raises(AttachmentNotFound):
        store.stat(f"sha256:{hashlib.sha256(PICTURE).hexdigest()}")
    writer.abandon()
    writer.abandon()
    assert kept(store, PICTURE).is_new


def test_files_are_listed_with_their_sizes(store: AttachmentStore) -> None:
    assert list(store.list()) == []
    picture, text = kept(store, PICTURE), kept(store, b"a text")
    store.renew([text.id])
    listed = {file.id: file.size for file in store.list()}
    assert listed == {picture.id: len(PICTURE), text.id: 6}
    assert store.unfinished(older_than_seconds=0) == 0


def test_a_sweep_removes_what_nobody_refers_to(store: AttachmentStore) -> None:
    used, unused = kept(store, PICTURE), kept(store, b"a text")
    assert store.sweep(lambda: {used.id}, older_than_seconds=0) == 1
    assert store.read(used.id) == PICTURE
    with pytest.raises(AttachmentNotFound):
        store.stat(unused.id)


def test_a_sweep_leaves_what_was_used_of_late(store: AttachmentStore) -> None:
    found = kept(store, PICTURE)

    def referenced() -> set[str]:
        raise AssertionError("nothing is old enough")

    assert store.sweep(referenced, older_than_seconds=3600) == 0
    store.renew([found.id])
    assert store.read(found.id) == PICTURE


def test_a_sweep_that_does_not_know_who_refers_to_what_removes_nothing(
    store: AttachmentStore,
) -> None:
    found = kept(store, PICTURE)
    assert store.sweep(lambda: None, older_than_seconds=0) == 0
    assert store.read(found.id) == PICTURE


def test_what_is_used_while_a_sweep_runs_stays(store: AttachmentStore, tmp_path: Path) -> None:
    found = kept(store, PICTURE)
    age = 0.001
    for path in tmp_path.rglob(found.id.removeprefix("sha256:")):
        os.utime(path, (0, 0))  # the time that a system gives to files lags by milliseconds
        age = 3600

    def referenced() -> set[str]:
        store.renew([found.id])
        return set()

    store.sweep(referenced, older_than_seconds=age)
    assert store.read(found.id) == PICTURE


def test_many_threads_keep_the_same_file_at_once(store: AttachmentStore) -> None:
    data = os.urandom(10_000).hex().encode()
    found: list[StoredFile] = []
    threads = [
        threading.Thread(target=lambda: found.append(kept(store, data, 1000))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.id for one in found} == {f"sha256:{hashlib.sha256(data).hexdigest()}"}
    assert sum(one.is_new for one in found) == 1
    assert store.read(found[0].id) == data
