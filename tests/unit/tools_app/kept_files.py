"""Keeps files in memory, as the server's own store would."""

import hashlib
import io
from typing import Any, cast

from sessions_app.attachments.media_type import media_type
from sessions_app.errors import AttachmentTooLarge, ValidationFailed
from sessions_app.messages import Attachment
from tools_app.result_files import ResultFiles


class KeptFiles:
    """Keeps files of a type that is known, and not too large."""

    def __init__(self, *, max_bytes=1 << 20, fault=None):
        self.files = {}
        self.fault = fault
        self._max_bytes = max_bytes

    async def keep(self, data, *, name):
        if self.fault is not None:
            raise self.fault
        if len(data) > self._max_bytes:
            raise AttachmentTooLarge(self._max_bytes)
        kind = media_type(io.BytesIO(data))
        if kind is None:
            raise ValidationFailed("It is neither an image, nor a PDF, nor a text.")
        file_id = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.files[file_id] = data
        return Attachment(id=file_id, name=name, media_type=kind, size=len(data))


def keeper(*, most=20, **more):
    return ResultFiles(cast("Any", KeptFiles(**more)), most=most)
