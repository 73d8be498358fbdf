"""Keeps files that a person names, to send them with a message."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import ValidationFailed
from sessions_app.messages import Attachment

PIECE_BYTES = 1 << 20


async def kept_file(attachments: AttachmentService, path: Path) -> Attachment:
    """Keep a file and return the reference to it.

    Raises:
        ValidationFailed: It is no regular file, or of no type that models take.
        AttachmentTooLarge: It is too large.
        StorageError: It can't be kept.
        OSError: It can't be read.
    """
    file = await asyncio.to_thread(_opened, path)
    with file:
        attachment, _ = await attachments.receive(_pieces(file), name=path.name)
    return attachment


def _opened(path: Path) -> BinaryIO:
    descriptor = os.open(path.expanduser(), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a pipe would be waited for
        os.close(descriptor)
        raise ValidationFailed(f"{path} is not a regular file.")
    return os.fdopen(descriptor, "rb")


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
        yield piece
