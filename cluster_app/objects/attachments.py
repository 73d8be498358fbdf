"""Stores attachments as content-addressed objects: ``<2 hex>/<64 hex>``.

An object's time can't be set, so each further use writes an empty object ``used/<64 hex>``, whose
time is that of the last use (docs/decisions/0071). A user of a file writes the mark and then checks
that the file exists; a sweep moves the file to ``swept/<64 hex>`` and then checks for a mark. So at
least one of the two notices the other (docs/decisions/0072).
"""

from collections.abc import Callable, Collection, Iterator
from io import BytesIO, FileIO
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile

import msgspec

from cluster_app.objects.records import put_whole
from cluster_app.objects.store import ListedObject, ObjectExists, ObjectMissing, ObjectStore
from sessions_app.attachments.file_store import ID
from sessions_app.attachments.media_type import HEAD_BYTES, TEXT, image_size, image_type
from sessions_app.attachments.store import ListedFile, StoredFile
from sessions_app.attachments.validation import ReceivedFile
from sessions_app.errors import AttachmentNotFound, StorageUnavailable
from sessions_app.store.atomic import typed_errors

_HEADER_BYTES = 256 * 1024
"""The bytes read for an image's size; in a JPEG, other segments may precede it."""
_USED = "used"
_SWEPT = "swept"
_NEVER = 0.0
_TRIES = 5
_COMPARED_BYTES = 1 << 20


class ObjectAttachmentStore:
    """Stores attachments in an object store; implements ``AttachmentStore``.

    Args:
        store: The object store.
        now: Returns the time in seconds since 1970, by a clock that all processes share.
    """

    def __init__(self, store: ObjectStore, *, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    def begin(self, *, max_bytes: int) -> "ObjectAttachmentWriter":
        """Return a writer of a new file of at most ``max_bytes``."""
        return ObjectAttachmentWriter(self, max_bytes)

    def stat(self, attachment_id: str) -> StoredFile:
        """Return the metadata of a file."""
        head, size = self._part(attachment_id, 0, _HEADER_BYTES)
        kind = image_type(head[:HEAD_BYTES]) or TEXT
        found = StoredFile(id=attachment_id, media_type=kind, size=size)
        try:
            pixels = image_size(BytesIO(head), kind)
        except (
            ValueError
        ):  # the size comes later in the file; it was checked when the file was stored
            pixels = None
        if pixels is None:
            return found
        return msgspec.structs.replace(found, width=pixels.width, height=pixels.height)

    def read(self, attachment_id: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a byte range of a file, shorter than ``length`` only at its end."""
        if length is None and not start:
            try:
                return self._store.get(_key(attachment_id)).data
            except ObjectMissing as error:
                raise AttachmentNotFound(attachment_id) from error
        return self._part(attachment_id, start, length)[0]

    def list(self) -> Iterator[ListedFile]:
        """Yield all files, in any order."""
        for folder, name, item in self._objects():
            if folder == name[:2]:
                yield ListedFile(f"sha256:{name}", item.size, item.modified_at)

    def unfinished(self, *, older_than_seconds: float) -> int:  # noqa: ARG002 - the port's
        """Return 0: incomplete uploads leave no objects."""
        return 0

    def renew(self, attachment_ids: Collection[str]) -> None:
        """Set the last use of files to now, before a message refers to them."""
        for attachment_id in attachment_ids:
            if not self._mark(_key(attachment_id)):
                raise AttachmentNotFound(attachment_id)

    def sweep(
        self, referenced: Callable[[], Collection[str] | None], *, older_than_seconds: float
    ) -> int:
        """Remove unreferenced files whose last use is longer ago than that."""
        newest = self._now() - older_than_seconds
        files, used, swept = self._listed()
        for name in swept:  # left by a killed sweep: restore it, which counts as a use
            self._move(f"{_SWEPT}/{name}", _key_of(name))
        for name in used.keys() - files.keys() - swept.keys():
            if used[name] <= newest:  # a mark of a missing file
                self._store.delete(f"{_USED}/{name}")
        old = [
            name
            for name, written in files.items()
            if name not in swept and max(written, used.get(name, written)) <= newest
        ]
        kept = referenced() if old else None
        if kept is None:
            return 0
        unused = [name for name in old if f"sha256:{name}" not in kept]
        return sum(self._remove(name, used.get(name, _NEVER)) for name in unused)

    def keep(self, attachment_id: str, data: memoryview) -> bool:
        """Write a file, or set its last use to now; return whether it was missing or damaged."""
        key = _key(attachment_id)
        for _ in range(_TRIES):
            try:
                self._store.put_new(key, data)
            except ObjectExists:
                if self._mark(key):
                    return self._mend(key, data)
            else:
                return True
        raise StorageUnavailable(f"{attachment_id} is being written and swept. Try again.")

    def _mend(self, key: str, data: memoryview) -> bool:
        """Replace a damaged file; return whether it was damaged.

        Reading it for the comparison costs no more than sending it.
        """
        try:
            size = self._store.get_part(key, 0, 1)[1]
            if size == len(data) and all(
                self._store.get_part(key, start, _COMPARED_BYTES)[0]
                == data[start : start + _COMPARED_BYTES]
                for start in range(0, size, _COMPARED_BYTES)
            ):
                return False
        except ObjectMissing:  # removed by a concurrent sweep
            pass
        put_whole(self._store, key, data)
        return True

    def _mark(self, key: str) -> bool:
        """Set a file's last use to now; return whether it exists."""
        put_whole(self._store, f"{_USED}/{key.rpartition('/')[2]}", b"")
        try:
            self._store.get_part(key, 0, 1)
        except ObjectMissing:
            return False
        return True

    def _remove(self, name: str, marked_at: float) -> bool:
        """Remove a file unless it is marked as used meanwhile."""
        key, aside, mark = _key_of(name), f"{_SWEPT}/{name}", f"{_USED}/{name}"
        if self._is_marked_anew(mark, marked_at) or not self._move(key, aside):
            return False
        if self._is_marked_anew(mark, marked_at):
            self._move(aside, key)
            return False
        self._store.delete(mark)
        self._store.delete(aside)
        return True

    def _is_marked_anew(self, mark: str, marked_at: float) -> bool:
        written = self._store.written_at(mark)
        return written is not None and int(written) != int(
            marked_at
        )  # times in listings are more precise

    def _move(self, key: str, to: str) -> bool:
        """Rename a file; return whether it existed."""
        try:
            self._store.copy(key, to)
        except ObjectMissing:
            return False
        self._store.delete(key)
        return True

    def _listed(self) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
        """Return three mappings of names to times: files, ``used`` marks and ``swept`` files."""
        files: dict[str, float] = {}
        used: dict[str, float] = {}
        swept: dict[str, float] = {}
        for folder, name, item in self._objects():
            times = {_USED: used, _SWEPT: swept, name[:2]: files}.get(folder)
            if times is not None:
                times[name] = item.modified_at
        return files, used, swept

    def _objects(self) -> Iterator[tuple[str, str, ListedObject]]:
        """Yield (folder, name, object) for the objects named by a digest."""
        for page in self._store.list():
            for item in page:
                folder, _, name = item.key.rpartition("/")
                if ID.fullmatch(f"sha256:{name}"):
                    yield folder, name, item

    def _part(self, attachment_id: str, start: int, length: int | None) -> tuple[bytes, int]:
        """Return a byte range of a file, and the file's size."""
        try:
            return self._store.get_part(_key(attachment_id), start, length)
        except ObjectMissing as error:
            raise AttachmentNotFound(attachment_id) from error


class ObjectAttachmentWriter:
    """Writes one new file, first to a local temporary file; implements ``AttachmentWriter``."""

    def __init__(self, store: ObjectAttachmentStore, max_bytes: int) -> None:
        self._store = store
        self._received = ReceivedFile(_temporary_file(), max_bytes)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._received.write(data)

    def finish(self) -> StoredFile:
        """Store the file, with its last use set to now."""
        try:
            found = self._received.checked()
            # Memory-mapped, so it is sent from the page cache in one atomic request, which a
            # multipart upload in parts of 5 MiB would not be.
            data = memoryview(mmap(self._received.file.fileno(), 0, access=ACCESS_READ))
            return msgspec.structs.replace(found, is_new=self._store.keep(found.id, data))
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Discard the file; do nothing after ``finish``."""
        self._received.close()


def _temporary_file() -> FileIO:
    with typed_errors():
        try:
            return TemporaryFile(buffering=0)
        except FileNotFoundError as error:
            raise StorageUnavailable(
                "There is no directory for temporary files that can be written to (TMPDIR)."
            ) from error


def _key(attachment_id: str) -> str:
    found = ID.fullmatch(attachment_id)
    if found is None:
        raise AttachmentNotFound(attachment_id)
    return _key_of(found[1])


def _key_of(name: str) -> str:
    return f"{name[:2]}/{name}"
