"""Validates files as they arrive: type, size in bytes, and the pixels of images.

Files are stored as they came: images are not turned (docs/decisions/0114).
"""

import hashlib
import io
import os
from typing import BinaryIO

from sessions_app.attachments.media_type import image_size, media_type
from sessions_app.attachments.store import StoredFile
from sessions_app.errors import AttachmentTooLarge, ValidationFailed
from sessions_app.store.atomic import typed_errors

MAX_PIXELS = 40_000_000
"""The maximum pixels of an image, 160 MB when decoded. Even a tiny file may declare any size."""


class ReceivedFile:
    """Writes and hashes a file received in pieces. All calls block.

    Args:
        file: The file to write to; closed by ``close``.
        max_bytes: The maximum size.
    """

    def __init__(self, file: io.FileIO, max_bytes: int) -> None:
        self.file = file
        self._max_bytes = max_bytes
        self._size = 0
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Append bytes; raises ``AttachmentTooLarge`` or ``StorageError``."""
        self._size += len(data)
        if self._size > self._max_bytes:
            raise AttachmentTooLarge(self._max_bytes)
        with typed_errors():
            left = memoryview(data)
            while left:
                left = left[os.write(self.file.fileno(), left) :]
        self._digest.update(data)

    def checked(self) -> StoredFile:
        """Validate the file and return its metadata; raises ``ValidationFailed``."""
        return checked_file(self.file, f"sha256:{self._digest.hexdigest()}", self._size)

    def close(self) -> None:
        """Close the file. Idempotent."""
        with typed_errors():
            self.file.close()


def checked_file(file: BinaryIO, attachment_id: str, size: int) -> StoredFile:
    """Validate a received file and return its metadata. Blocks.

    Raises:
        ValidationFailed: The file is empty, of an unknown type, or declares an invalid size.
    """
    if not size:
        raise ValidationFailed("The attachment is empty.", field="attachment")
    kind = media_type(file)
    if kind is None:
        raise ValidationFailed(
            "The attachment is neither an image (PNG, JPEG, GIF, WebP, HEIC), nor a PDF, nor a "
            "text in UTF-8, UTF-16 or Windows-1252, whatever it is called.",
            field="attachment",
        )
    try:
        pixels = image_size(file, kind)
    except ValueError as error:
        raise ValidationFailed(
            f"The attachment is not a complete {kind} image: {error}.", field="attachment"
        ) from error
    if pixels is None:
        return StoredFile(id=attachment_id, media_type=kind, size=size)
    if pixels.pixels > MAX_PIXELS:
        raise ValidationFailed(
            f"The image declares {pixels.width} x {pixels.height} pixels; at most {MAX_PIXELS:,} "
            "in all are taken.",
            field="attachment",
        )
    return StoredFile(
        id=attachment_id, media_type=kind, size=size, width=pixels.width, height=pixels.height
    )
