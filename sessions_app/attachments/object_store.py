"""Keeps attachments as objects that are named by their contents: ``<2 hex>/<64 hex>``.

An object's time can't be set, so that what is used again leaves an empty object ``used/<64 hex>``,
whose time is that of the last use (docs/decisions/0071).
"""

from collections.abc import Callable, Collection
from io import BytesIO, FileIO
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile

import msgspec

from sessions_app.attachments.file_store import ID
from sessions_app.attachments.media_type import HEAD_BYTES, TEXT, image_size, image_type
from sessions_app.attachments.received import ReceivedFile
from sessions_app.attachments.store import StoredFile
from sessions_app.errors import AttachmentNotFound, StorageUnavailable
from sessions_app.store.atomic import typed_errors
from sessions_app.store.objects.documents import put_whole
from sessions_app.store.objects.store import ObjectExists, ObjectMissing, ObjectStore

_HEADER_BYTES = 256 * 1024
"""Enough for the size that an image declares; a JPEG may have some segments before it."""
_USED = "used"


class ObjectAttachmentStore:
    """Keeps attachments in an object store (an ``AttachmentStore``).

    Two processes may disagree for some milliseconds whether a file that nobody used for a day is
    used again or swept: then the message says that it is left out, and sending it once more helps.

    Args:
        store: Where they are.
        now: The time, by the clock that all processes share.
    """

    def __init__(self, store: ObjectStore, *, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now

    def begin(self, *, max_bytes: int) -> "ObjectAttachmentWriter":
        """Begin to write a file of at most so many bytes."""
        return ObjectAttachmentWriter(self._store, max_bytes)

    def stat(self, attachment_id: str) -> StoredFile:
        """Return what is known of a file."""
        head, size = self._part(attachment_id, 0, _HEADER_BYTES)
        kind = image_type(head[:HEAD_BYTES]) or TEXT
        found = StoredFile(id=attachment_id, media_type=kind, size=size)
        try:
            pixels = image_size(BytesIO(head), kind)
        except ValueError:  # it declares its size later; it was checked when it was kept
            pixels = None
        if pixels is None:
            return found
        return msgspec.structs.replace(found, width=pixels.width, height=pixels.height)

    def read(self, attachment_id: str, start: int = 0, length: int | None = None) -> bytes:
        """Return bytes of a file, fewer than ``length`` only at its end."""
        if length is None and not start:
            try:
                return self._store.get(_key(attachment_id)).data
            except ObjectMissing as error:
                raise AttachmentNotFound(attachment_id) from error
        return self._part(attachment_id, start, length)[0]

    def renew(self, attachment_ids: Collection[str]) -> None:
        """Count files as used now, because a message is about to refer to them."""
        for attachment_id in attachment_ids:
            self._part(attachment_id, 0, 1)  # first: a mark of what is not there would stay
            put_whole(self._store, _used_key(_key(attachment_id)), b"")

    def sweep(
        self, referenced: Callable[[], Collection[str] | None], *, older_than_seconds: float
    ) -> int:
        """Remove the files that were not used for so long and that nobody refers to."""
        newest = self._now() - older_than_seconds
        old = self._unused_since(newest)
        kept = referenced() if old else None
        if kept is None:
            return 0
        unused = {key: uses for key, uses in old.items() if _id_of(key) not in kept}
        again = self._unused_since(newest) if unused else {}
        removed = [key for key, uses in unused.items() if again.get(key) == uses]
        for key in removed:
            self._store.delete(key)
            self._store.delete(_used_key(key))
        return len(removed)

    def _unused_since(self, newest: float) -> dict[str, list[float]]:
        """Return the files that were not used since then, each with the times of its uses."""
        uses: dict[str, list[float]] = {}
        files: set[str] = set()
        for page in self._store.list():
            for item in page:
                folder, _, name = item.key.rpartition("/")
                if ID.fullmatch(f"sha256:{name}") is None or folder not in {_USED, name[:2]}:
                    continue
                if folder != _USED:
                    files.add(item.key)
                uses.setdefault(f"{name[:2]}/{name}", []).append(item.modified_at)
        return {key: uses[key] for key in files if max(uses[key]) <= newest}

    def _part(self, attachment_id: str, start: int, length: int | None) -> tuple[bytes, int]:
        """Return bytes of a file, and its size."""
        try:
            return self._store.get_part(_key(attachment_id), start, length)
        except ObjectMissing as error:
            raise AttachmentNotFound(attachment_id) from error


class ObjectAttachmentWriter:
    """Writes one new file (an ``AttachmentWriter``): to a temporary file first, then as a whole."""

    def __init__(self, store: ObjectStore, max_bytes: int) -> None:
        self._store = store
        self._received = ReceivedFile(_temporary_file(), max_bytes)

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._received.write(data)

    def finish(self) -> StoredFile:
        """Keep the file, and count it as used now."""
        try:
            found = self._received.checked()
            key = _key(found.id)
            # Mapped, not read: the store sends it from the disk's cache, and it stays one object
            # that is there whole or not at all, which one in parts of 5 MiB would not be.
            data = memoryview(mmap(self._received.file.fileno(), 0, access=ACCESS_READ))
            try:
                self._store.put_new(key, data)
            except ObjectExists:
                put_whole(self._store, _used_key(key), b"")
                return found
            return msgspec.structs.replace(found, is_new=True)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Forget what was written; does nothing after ``finish``."""
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
    return f"{found[1][:2]}/{found[1]}"


def _used_key(key: str) -> str:
    return f"{_USED}/{key.rpartition('/')[2]}"


def _id_of(key: str) -> str:
    return f"sha256:{key.rpartition('/')[2]}"
