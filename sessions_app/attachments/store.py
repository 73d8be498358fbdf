"""Declares the port for the bytes of attachments: files that are named by their contents.

A file is written once and never changed. Who refers to it is said by sessions alone, so that forks
and repeated uploads share one file, and a file that nobody refers to is removed some time later.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol

import msgspec


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is kept.

    Attributes:
        id: ``sha256:`` and the hexadecimal digest of the bytes.
        media_type: What the bytes are, one of ``media_type.MEDIA_TYPES``.
        size: In bytes.
        width: Of an image in pixels, where its header says so.
        height: Of an image in pixels, where its header says so.
        is_new: Whether it was not there before; only ``finish`` can tell.
    """

    id: str
    media_type: str
    size: int
    width: int | None = None
    height: int | None = None
    is_new: bool = False


class ListedFile(msgspec.Struct, frozen=True):
    """A file as listings show it; whether it is whole is not looked at.

    Attributes:
        id: Its id.
        size: In bytes.
        written_at: When it was written or used last, by the store's clock.
    """

    id: str
    size: int
    written_at: float


class AttachmentWriter(Protocol):
    """Takes the bytes of one new file. All calls block; nobody sees it before ``finish``."""

    def write(self, data: bytes) -> None:
        """Add bytes; raises ``AttachmentTooLarge`` beyond the limit, ``StorageError``."""

    def finish(self) -> StoredFile:
        """Keep the file, so that it outlives a power cut, and count it as used now.

        Raises:
            ValidationFailed: It is empty, of no type that is known, or declares an impossible size.
            StorageError: It can't be kept.
        """

    def abandon(self) -> None:
        """Forget what was written; does nothing after ``finish``."""


class AttachmentStore(Protocol):
    """Keeps files. All calls block; any thread and several processes may make them.

    ``AttachmentNotFound`` is raised where there is no such file, ``StorageError`` where the store
    can't be asked.
    """

    def begin(self, *, max_bytes: int) -> AttachmentWriter:
        """Begin to write a file of at most so many bytes."""

    def stat(self, attachment_id: str) -> StoredFile:
        """Return what is known of a file."""

    def read(self, attachment_id: str, start: int = 0, length: int | None = None) -> bytes:
        """Return bytes of a file, fewer than ``length`` only at its end."""

    def list(self) -> Iterator[ListedFile]:
        """Yield all files, in no order."""

    def unfinished(self, *, older_than_seconds: float) -> int:
        """Return how many uploads left something half-written so long ago; a sweep removes it."""

    def renew(self, attachment_ids: Collection[str]) -> None:
        """Count files as used now, because a message is about to refer to them."""

    def sweep(
        self, referenced: Callable[[], Collection[str] | None], *, older_than_seconds: float
    ) -> int:
        """Remove the files that were not used for so long and that nobody refers to.

        Args:
            referenced: Returns the ids that are referred to, None where that can't be told for
                sure: then nothing is removed. Called only where a file is old enough.
            older_than_seconds: For how long a file may wait for its first message.

        Returns:
            How many were removed.
        """


def write_pieces(store: AttachmentStore, pieces: Iterable[bytes], *, max_bytes: int) -> StoredFile:
    """Keep a file that is read in pieces. Blocks.

    Raises:
        AttachmentTooLarge: It has more than ``max_bytes``.
        ValidationFailed: It is broken, or of no type that is known.
        StorageError: There is no room.
    """
    writer = store.begin(max_bytes=max_bytes)
    try:
        for piece in pieces:
            writer.write(piece)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise
