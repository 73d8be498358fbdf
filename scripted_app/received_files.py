"""Describes the images and files of a request, a line each, which scripted models repeat."""

import base64
import binascii
import hashlib
from collections.abc import Iterable

from sessions_app.attachments.media_type import HEAD_BYTES, image_type

_FROM_URLS = str.maketrans("-_", "+/")


def with_files(text: str, encoded: Iterable[str]) -> str:
    """Return a message's text with a line for each of its base64-encoded files.

    A data URL counts, too: ``data:image/png;base64,...``.

    Raises:
        ValueError: This is no base64.
    """
    lines = [_line(one.partition(";base64,")[2] or one) for one in encoded]
    return "\n".join([text, *lines] if text else lines)


def _line(encoded: str) -> str:
    try:
        # Google's client writes base64 for URLs.
        data = base64.b64decode(encoded.translate(_FROM_URLS), validate=True)
    except binascii.Error as error:
        raise ValueError(f"illegal base64 data: {error}") from error
    kind = image_type(data[:HEAD_BYTES]) or "application/octet-stream"
    return f"[{kind}, {len(data)} bytes, sha256:{hashlib.sha256(data).hexdigest()}]"
