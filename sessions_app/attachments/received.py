"""Checks what was received, before it is kept: it has a type that is known, and a possible size."""

from typing import BinaryIO

from sessions_app.attachments.media_type import image_size, media_type
from sessions_app.attachments.store import StoredFile
from sessions_app.errors import ValidationFailed

MAX_PIXELS = 40_000_000
"""Of an image: 160 MB for whoever decodes it. A file of a few kilobytes may declare any size."""


def checked_file(file: BinaryIO, attachment_id: str, size: int) -> StoredFile:
    """Return what a received file is. Blocks.

    Raises:
        ValidationFailed: It is empty, of no type that is known, or declares an impossible size.
    """
    if not size:
        raise ValidationFailed("The attachment is empty.", field="attachment")
    kind = media_type(file)
    if kind is None:
        raise ValidationFailed(
            "The attachment is neither an image (PNG, JPEG, GIF, WebP, HEIC), nor a PDF, nor a "
            "text in UTF-8, whatever it is called.",
            field="attachment",
        )
    try:
        pixels = image_size(file, kind)
    except ValueError as error:
        raise ValidationFailed(
            f"The attachment is no whole {kind} image: {error}.", field="attachment"
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
