"""Declares the port of the attachment store: content-addressed files.

A file is written once and never changed. References are only in sessions, so forks and repeated
uploads share one file, and an unreferenced file is removed some time later.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol

import msgspec


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a stored file.

    Attributes:
        id: ``sha256:`` and the hexadecimal digest of the bytes.
        media_type: The detected type, one of ``media_type.MEDIA_TYPES``.
        size: The size in bytes.
        width: The width of an image in pixels, if declared in its header.
        height: The height of an image in pixels, if declared in its header.
        is_new: Whether the file did not exist before; set only by ``finish``.
    """

    id: str
    media_type: str
    size: int
    width: int | None = None
    height: int | None = None
    is_new: bool = False


class ListedFile(msgspec.Struct, frozen=True):
    """A file in a listing; its content is not checked.

    Attributes:
        id: The id.
        size: The size in bytes.
        written_at: The time of its last use, by the store's clock.
    """

    id: str
    size: int
    written_at: float


class AttachmentWriter(Protocol):
    """Writes one new file, which is invisible before ``finish``. All calls block."""

    def write(self, data: bytes) -> None:
        """Append bytes; raises ``AttachmentTooLarge`` or ``StorageError``."""

    def finish(self) -> StoredFile:
        """Store the file durably, with its last use set to now.

        Raises:
            ValidationFailed: The file is empty, of an unknown type, or declares an invalid size.
            StorageError: The file can't be stored.
        """

    def abandon(self) -> None:
        """Discard the file; do nothing after ``finish``."""


class AttachmentStore(Protocol):
    """Stores files. All calls block; safe for several threads and processes.

    Methods raise ``AttachmentNotFound`` if there is no such file, and ``StorageError`` if the store
    can't be reached.
    """

    def begin(self, *, max_bytes: int) -> AttachmentWriter:
        """Return a writer of a new file of at most ``max_bytes``."""

    def stat(self, attachment_id: str) -> StoredFile:
        """Return the metadata of a file."""

    def read(self, attachment_id: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a byte range of a file, shorter than ``length`` only at its end."""

    def list(self) -> Iterator[ListedFile]:
        """Yield all files, in any order."""

    def unfinished(self, *, older_than_seconds: float) -> int:
        """Return the number of incomplete uploads older than that, which a sweep removes."""

    def renew(self, attachment_ids: Collection[str]) -> None:
        """Set the last use of files to now, before a message refers to them."""

    def sweep(
        self, referenced: Callable[[], Collection[str] | None], *, older_than_seconds: float
    ) -> int:
        """Remove unreferenced files whose last use is longer ago than that.

        Args:
            referenced: Returns the ids in use, or None if they can't be determined reliably: then
                nothing is removed. Called only if a file is old enough.
            older_than_seconds: The minimum age since the last use.

        Returns:
            The number of removed files.
        """


def write_pieces(store: AttachmentStore, pieces: Iterable[bytes], *, max_bytes: int) -> StoredFile:
    """Store a file given in pieces. Blocks.

    Raises:
        AttachmentTooLarge: The file is larger than ``max_bytes``.
        ValidationFailed: The file is invalid, or of an unknown type.
        StorageError: The file can't be stored.
    """
    writer = store.begin(max_bytes=max_bytes)
    try:
        for piece in pieces:
            writer.write(piece)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise
