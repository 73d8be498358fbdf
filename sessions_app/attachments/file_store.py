"""Stores attachments as content-addressed files: ``<2 hex>/<64 hex>``."""

import contextlib
import errno
import io
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from sessions_app.attachments.media_type import TEXT, image_size, image_type
from sessions_app.attachments.store import ListedFile, StoredFile
from sessions_app.attachments.validation import ReceivedFile
from sessions_app.errors import AttachmentNotFound, StorageError
from sessions_app.ids_and_clock import new_file_tag
from sessions_app.store.atomic import (
    PRIVATE_FILE,
    make_private_directory,
    sync_data,
    sync_directory,
    typed_errors,
)
from sessions_app.store.locks import FileLocks

ID = re.compile(r"sha256:([0-9a-f]{64})")
INCOMING = ".incoming"
LOCK_SECONDS = 10.0
_PIECE_BYTES = 1 << 18

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})


class FileAttachmentStore:
    """Stores attachments below a directory; implements ``AttachmentStore``.

    A file is written to a temporary path, synced and then renamed, so named files are complete. Its
    mtime is the time of its last use.

    Args:
        directory: The directory of the files; created with the first one.
        note_use: Called before a file is kept or used again, by which time it must be recorded who
            uses the files.
    """

    def __init__(self, directory: Path, *, note_use: Callable[[], object] = lambda: None) -> None:
        self._directory = str(directory)
        self._note_use = note_use
        self._locks = FileLocks(f"{directory}/{INCOMING}")

    def begin(self, *, max_bytes: int) -> "FileAttachmentWriter":
        """Return a writer of a new file of at most ``max_bytes``."""
        with typed_errors():
            return FileAttachmentWriter(self, f"{self._directory}/{INCOMING}", max_bytes)

    def stat(self, attachment_id: str) -> StoredFile:
        """Return the metadata of a file."""
        with self._opened(attachment_id) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            kind = image_type(file.read(32)) or TEXT
            found = StoredFile(id=attachment_id, media_type=kind, size=os.fstat(descriptor).st_size)
            try:
                size = image_size(file, kind)
            except ValueError as error:  # it was valid when it was stored
                raise AttachmentNotFound(attachment_id) from error
            if size is None:
                return found
            return msgspec.structs.replace(found, width=size.width, height=size.height)

    def read(self, attachment_id: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a byte range of a file, shorter than ``length`` only at its end."""
        with self._opened(attachment_id) as descriptor:
            left = max(os.fstat(descriptor).st_size - start, 0)
            left = left if length is None else min(left, length)
            pieces = []
            while left and (piece := os.pread(descriptor, left, start)):
                pieces.append(piece)
                start += len(piece)
                left -= len(piece)
            return b"".join(pieces)

    def list(self) -> Iterator[ListedFile]:
        """Yield all files, in any order."""
        with typed_errors():
            for name, status in self._files():
                yield ListedFile(f"sha256:{name}", status.st_size, status.st_mtime)

    def unfinished(self, *, older_than_seconds: float) -> int:
        """Return the number of incomplete uploads older than that."""
        with typed_errors():
            return len(list(self._left_since(time.time() - older_than_seconds)))

    def renew(self, attachment_ids: Collection[str]) -> None:
        """Set the last use of files to now, before a message refers to them."""
        if not attachment_ids:
            return
        self._note_use()
        with self._locked():
            for attachment_id in attachment_ids:
                with self._opened(attachment_id) as descriptor:
                    os.utime(descriptor)

    def sweep(
        self, referenced: Callable[[], Collection[str] | None], *, older_than_seconds: float
    ) -> int:
        """Remove unreferenced files whose last use is longer ago than that."""
        newest = time.time() - older_than_seconds
        with typed_errors():
            for left in self._left_since(newest):
                Path(left).unlink(missing_ok=True)
            old = [name for name, status in self._files() if status.st_mtime <= newest]
            kept = referenced() if old else None
            if kept is None:
                return 0
            return sum(self._remove(name, newest) for name in old if f"sha256:{name}" not in kept)

    def _keep(self, temporary: str, written: int, name: str) -> bool:
        """Rename a synced temporary file to its name; return whether it is new."""
        self._note_use()
        folder = f"{self._directory}/{name[:2]}"
        make_private_directory(folder)
        with self._locked():
            is_new = not self._used_again(f"sha256:{name}", written)
            if is_new:  # replaces a link, which is never followed, or a damaged file
                os.replace(temporary, f"{folder}/{name}")  # noqa: PTH105 - paths are text here
        sync_directory(folder)
        return is_new

    def _used_again(self, attachment_id: str, written: int) -> bool:
        """Set a file's last use to now; return whether it exists with the bytes of ``written``."""
        try:
            with self._opened(attachment_id) as descriptor:
                if not _have_the_same_bytes(descriptor, written):
                    return False
                os.utime(descriptor)
                return True
        except AttachmentNotFound:
            return False

    def _remove(self, name: str, newest: float) -> bool:
        path = Path(self._directory, name[:2], name)
        with self._locked(), contextlib.suppress(FileNotFoundError):
            if path.lstat().st_mtime <= newest:  # not renewed since
                path.unlink()
                return True
        return False

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the names and the ``stat`` results of all files."""
        for folder in _entries(self._directory):
            if len(folder.name) != 2 or not folder.is_dir(follow_symlinks=False):
                continue
            for entry, status in _regular_files(folder.path):
                if ID.fullmatch(f"sha256:{entry.name}"):
                    yield entry.name, status

    def _left_since(self, newest: float) -> Iterator[str]:
        """Yield the paths of incomplete uploads of killed processes."""
        for entry, status in _regular_files(f"{self._directory}/{INCOMING}"):
            if not entry.name.endswith(".lock") and status.st_mtime <= newest:
                yield entry.path

    @contextlib.contextmanager
    def _opened(self, attachment_id: str) -> Iterator[int]:
        found = ID.fullmatch(attachment_id)
        if found is None:
            raise AttachmentNotFound(attachment_id)
        with typed_errors():
            try:
                descriptor = os.open(f"{self._directory}/{found[1][:2]}/{found[1]}", _READ)
            except OSError as error:
                if error.errno in _NOT_THERE:
                    raise AttachmentNotFound(attachment_id) from error
                raise
            try:
                status = os.fstat(descriptor)
                if (
                    not stat.S_ISREG(status.st_mode) or not status.st_size
                ):  # empty files are never stored
                    raise AttachmentNotFound(attachment_id)
                yield descriptor
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            held = self._locks.held("attachments", timeout_seconds=LOCK_SECONDS)
        except TimeoutError as error:
            raise StorageError("Another process keeps the attachments locked.") from error
        with held:
            yield


class FileAttachmentWriter:
    """Writes one new file; implements ``AttachmentWriter``. Not thread-safe."""

    def __init__(self, store: FileAttachmentStore, directory: str, max_bytes: int) -> None:
        self._store = store
        self._path = f"{directory}/{new_file_tag()}"
        try:
            file = _open_new(self._path)
        except FileNotFoundError:
            make_private_directory(directory)
            file = _open_new(self._path)
        self._received = ReceivedFile(file, max_bytes)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._received.write(data)

    def finish(self) -> StoredFile:
        """Store the file durably, with its last use set to now."""
        try:
            with typed_errors():
                found = self._received.checked()
                sync_data(self._received.file.fileno())
                name, written = found.id.removeprefix("sha256:"), self._received.file.fileno()
                is_new = self._store._keep(self._path, written, name)  # noqa: SLF001 - of this file
                return msgspec.structs.replace(found, is_new=is_new)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Discard the file; do nothing after ``finish``."""
        self._received.close()
        with typed_errors():
            Path(self._path).unlink(missing_ok=True)


def _open_new(path: str) -> io.FileIO:
    return io.FileIO(os.open(path, _NEW, PRIVATE_FILE), "w+")


def _have_the_same_bytes(one: int, other: int) -> bool:
    size = os.fstat(other).st_size
    return os.fstat(one).st_size == size and all(
        os.pread(one, _PIECE_BYTES, at) == os.pread(other, _PIECE_BYTES, at)
        for at in range(0, size, _PIECE_BYTES)
    )


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _regular_files(directory: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    for entry in _entries(directory):
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield entry, status
