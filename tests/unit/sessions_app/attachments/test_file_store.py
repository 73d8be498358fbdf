"""Files of attachments outlive damage and killed processes: none is ever served in half."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sessions_app.attachments.file_store import INCOMING, FileAttachmentStore
from sessions_app.attachments.store import StoredFile
from sessions_app.errors import AttachmentNotFound, StorageError, StorageFull, StorageReadOnly
from tests.unit.chat.disk import FailingDisk

DATA = b"a whole text"
DIGEST = hashlib.sha256(DATA).hexdigest()
UPLOAD = """
import sys
from pathlib import Path
from sessions_app.attachments.file_store import FileAttachmentStore
FileAttachmentStore(Path(sys.argv[1])).begin(max_bytes=1000).write(b"a whole text")
print("written", flush=True)
sys.stdin.read()
"""


def kept(store: FileAttachmentStore) -> StoredFile:
    writer = store.begin(max_bytes=1000)
    writer.write(DATA)
    return writer.finish()


@pytest.fixture
def store(tmp_path: Path) -> FileAttachmentStore:
    return FileAttachmentStore(tmp_path)


@pytest.mark.parametrize("damaged", [DATA[:3], b"?" + DATA[1:]])
def test_a_damaged_file_is_replaced_when_it_is_sent_again(
    store: FileAttachmentStore, tmp_path: Path, damaged: bytes
) -> None:
    kept(store)
    (tmp_path / DIGEST[:2] / DIGEST).write_bytes(damaged)
    again = kept(store)
    assert again.is_new
    assert store.read(again.id) == DATA


def test_a_file_that_was_emptied_is_not_there(store: FileAttachmentStore, tmp_path: Path) -> None:
    attachment_id = kept(store).id
    os.truncate(tmp_path / DIGEST[:2] / DIGEST, 0)
    for ask in (store.stat, store.read):
        with pytest.raises(AttachmentNotFound):
            ask(attachment_id)


def test_a_link_is_not_followed_and_is_replaced_when_its_file_is_sent_again(
    store: FileAttachmentStore, tmp_path: Path
) -> None:
    other, place = tmp_path / "other", tmp_path / DIGEST[:2] / DIGEST
    other.write_text("another's")
    place.parent.mkdir()
    place.symlink_to(other)
    with pytest.raises(AttachmentNotFound):
        store.read(f"sha256:{DIGEST}")
    assert store.read(kept(store).id) == DATA
    assert other.read_text() == "another's"
    assert not place.is_symlink()


@pytest.mark.parametrize(
    ("fail", "error"),
    [(FailingDisk.fill, StorageFull), (FailingDisk.turn_read_only, StorageReadOnly)],
)
@pytest.mark.parametrize("whole_steps", [0, 1, 2])
def test_a_disk_that_fails_is_told_by_name_whenever_it_does(
    store: FileAttachmentStore,
    tmp_path: Path,
    fail: Callable[[FailingDisk], None],
    error: type[StorageError],
    whole_steps: int,
) -> None:
    writers = []
    steps: list[Callable[[], object]] = [
        lambda: writers.append(store.begin(max_bytes=1000)),
        lambda: writers[0].write(DATA),
        lambda: writers.pop().finish(),
    ]
    with FailingDisk(tmp_path).installed() as disk:
        for step in steps[:whole_steps]:
            step()
        fail(disk)
        with pytest.raises(error):
            steps[whole_steps]()
        disk.mend()
        for writer in writers:
            writer.abandon()
    assert kept(store).is_new


def test_a_process_that_is_killed_while_it_writes_leaves_nothing_to_be_seen(
    store: FileAttachmentStore, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", UPLOAD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    (left,) = (tmp_path / INCOMING).iterdir()
    with pytest.raises(AttachmentNotFound):
        store.stat(f"sha256:{DIGEST}")
    assert store.unfinished(older_than_seconds=3600) == 0
    os.utime(left, (1, 1))
    assert store.unfinished(older_than_seconds=3600) == 1
    store.sweep(lambda: None, older_than_seconds=3600)
    assert not left.exists()
