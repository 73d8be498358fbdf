"""Stores, finds and reads attachments without blocking the event loop."""

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from functools import partial

from sessions_app.attachments.base64_text import (
    InvalidBase64,
    begin_of_base64,
    decode_base64,
    id_of,
)
from sessions_app.attachments.names import checked_name
from sessions_app.attachments.store import (
    AttachmentStore,
    AttachmentWriter,
    StoredFile,
    write_pieces,
)
from sessions_app.errors import AttachmentNotFound, ValidationFailed
from sessions_app.messages import Attachment
from sessions_app.shielding import thread_to_the_end, to_the_end

PIECE_BYTES = 128 * 1024
"""The bytes written or read in one thread call."""


class AttachmentDamaged(Exception):
    """The bytes of a file do not match its id; ``mochi-server doctor`` reports details."""


class AttachmentService:
    """Stores, finds and reads attachments, with file I/O in threads.

    All methods raise ``StorageError`` if the store can't be reached or written to.

    Args:
        store: The attachment store.
        max_bytes: The maximum size of an attachment.
    """

    def __init__(self, store: AttachmentStore, *, max_bytes: int) -> None:
        self.store = store
        self.max_bytes = max_bytes

    async def receive(
        self, pieces: AsyncIterable[bytes], *, name: str | None
    ) -> tuple[Attachment, bool]:
        """Store a file that arrives in pieces, with at most one piece in memory.

        Args:
            pieces: The bytes as they arrive.
            name: The client's name of the file.

        Returns:
            The attachment, and whether it is new.

        Raises:
            AttachmentTooLarge: The file is larger than ``max_bytes``.
            ValidationFailed: The file is empty, of an unknown type, or an invalid image.
        """
        begun = asyncio.ensure_future(asyncio.to_thread(self.store.begin, max_bytes=self.max_bytes))
        try:
            writer = await to_the_end(begun)
        except asyncio.CancelledError:
            if not begun.cancelled() and begun.exception() is None:
                await thread_to_the_end(begun.result().abandon)
            raise
        try:
            held = bytearray()
            async for piece in pieces:
                held += piece
                if len(held) >= PIECE_BYTES:
                    await thread_to_the_end(partial(writer.write, bytes(held)))
                    held.clear()
            stored = await thread_to_the_end(partial(_finished, writer, bytes(held)))
        except BaseException:
            await thread_to_the_end(writer.abandon)
            raise
        return attachment_of(stored, name), stored.is_new

    async def keep(self, data: bytes, *, name: str | None) -> Attachment:
        """Store a file given as bytes.

        Raises:
            AttachmentTooLarge: The file is larger than ``max_bytes``.
            ValidationFailed: The file is empty, of an unknown type, or an invalid image.
        """
        return await asyncio.to_thread(keep, self.store, data, name=name, max_bytes=self.max_bytes)

    async def keep_base64(self, text: str, *, name: str | None) -> Attachment:
        """Store a file given as base64 or a data URL, decoded in a thread.

        Raises:
            AttachmentTooLarge: The file is larger than ``max_bytes``.
            ValidationFailed: The text is not base64, or the file is empty, of an unknown type, or
                an invalid image.
        """

        def kept() -> Attachment:
            try:
                begin = begin_of_base64(text)
                pieces = decode_base64(text, begin=begin, max_bytes=self.max_bytes)
            except InvalidBase64 as error:
                raise ValidationFailed(str(error), field="attachment") from error
            return keep_pieces(self.store, pieces, name=name, max_bytes=self.max_bytes)

        return await asyncio.to_thread(kept)

    async def look_up(self, attachment_id: str, *, name: str | None = None) -> Attachment:
        """Return an attachment by its id.

        Raises:
            AttachmentNotFound: There is no such file.
        """
        return attachment_of(await asyncio.to_thread(self.store.stat, attachment_id), name)

    async def refer(self, attachment_id: str, *, name: str | None = None) -> Attachment:
        """Return an attachment for use in a message, and set its last use to now.

        Raises:
            AttachmentNotFound: There is no such file.
        """

        def renewed() -> StoredFile:
            self.store.renew([attachment_id])
            return self.store.stat(attachment_id)

        return attachment_of(await asyncio.to_thread(renewed), name)

    async def read(self, attachment_id: str) -> bytes:
        """Return all bytes; raises ``AttachmentNotFound``."""
        return await asyncio.to_thread(self.store.read, attachment_id)

    async def pieces(self, attachment_id: str, start: int, length: int) -> AsyncIterator[bytes]:
        """Yield a range of the bytes in pieces; raises ``AttachmentNotFound``."""
        for at in range(start, start + length, PIECE_BYTES):
            size = min(PIECE_BYTES, start + length - at)
            yield await asyncio.to_thread(self.store.read, attachment_id, at, size)

    async def whole(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield all bytes in pieces, the last one only after checking the digest.

        Raises:
            AttachmentNotFound: There is no such file.
            AttachmentDamaged: The bytes do not match the id.
        """
        digest, start = hashlib.sha256(), 0

        def read() -> bytes:
            piece = self.store.read(attachment.id, start, PIECE_BYTES)
            digest.update(piece)
            return piece

        while start < attachment.size:
            piece = await asyncio.to_thread(read)
            start += PIECE_BYTES
            is_last = start >= attachment.size
            whole = _id_of(digest) == attachment.id if is_last else len(piece) == PIECE_BYTES
            if not whole:
                raise AttachmentDamaged(attachment.id)
            yield piece


def keep(store: AttachmentStore, data: bytes, *, name: str | None, max_bytes: int) -> Attachment:
    """Store a file given as bytes, as ``AttachmentService.keep`` does. Blocks."""
    return attachment_of(write_pieces(store, [data], max_bytes=max_bytes), name)


def keep_pieces(
    store: AttachmentStore, pieces: Sequence[bytes], *, name: str | None, max_bytes: int
) -> Attachment:
    """Store a file that probably exists already, as in a history sent again. Blocks.

    Raises:
        AttachmentTooLarge: The file is larger than ``max_bytes``.
        ValidationFailed: The file is empty, of an unknown type, or an invalid image.
        StorageError: The store can't be reached or written to.
    """
    attachment_id = id_of(pieces)
    try:
        stored = store.stat(attachment_id)
        store.renew([attachment_id])
    except AttachmentNotFound:
        stored = None
    if stored is None or stored.size != sum(map(len, pieces)):
        stored = write_pieces(store, pieces, max_bytes=max_bytes)
    return attachment_of(stored, name)


def _id_of(digest: "hashlib._Hash") -> str:
    return f"sha256:{digest.hexdigest()}"


def attachment_of(stored: StoredFile, name: str | None) -> Attachment:
    """Return the reference to a stored file, with a safe name."""
    return Attachment(
        id=stored.id,
        name=checked_name(name, stored.media_type),
        media_type=stored.media_type,
        size=stored.size,
        width=stored.width,
        height=stored.height,
    )


def _finished(writer: AttachmentWriter, rest: bytes) -> StoredFile:
    if rest:
        writer.write(rest)
    return writer.finish()
