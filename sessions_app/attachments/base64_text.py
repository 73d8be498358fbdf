"""Decodes files sent as base64. Pure.

Shared by all sources: chat requests, OpenAI's protocols, MCP servers and functions.
"""

import binascii
import hashlib
from collections.abc import Sequence

from sessions_app.errors import AttachmentTooLarge

_LONGEST_HEADER = 512
"""The maximum characters before the comma of a data URL."""

_PIECE = 1 << 20
"""The characters decoded in one call; other threads run between two pieces."""

_WHITE = str.maketrans("", "", " \t\r\n")


class InvalidBase64(ValueError):
    """Raised for invalid base64; the message is a sentence."""


def begin_of_base64(text: str) -> int:
    """Return the start offset of the base64 in a text that is base64 or a data URL.

    Raises:
        InvalidBase64: The text is a data URL without base64.
    """
    if text[:5].lower() != "data:":
        return 0
    comma = text.find(",", 0, _LONGEST_HEADER)
    if comma < 0 or not text[:comma].lower().endswith(";base64"):
        raise InvalidBase64("A data URL looks like 'data:image/png;base64,' and then its base64.")
    return comma + 1


def decode_base64(text: str, *, begin: int = 0, max_bytes: int | None = None) -> Sequence[bytes]:
    """Decode base64 to pieces of bytes, ignoring white space.

    Args:
        text: The text with the base64.
        begin: The start offset of the base64.
        max_bytes: The maximum number of bytes, checked before decoding if possible.

    Raises:
        AttachmentTooLarge: There are too many bytes.
        InvalidBase64: The text is not valid base64.
    """
    if max_bytes is not None and (len(text) - begin) // 4 * 3 - 2 > max_bytes:
        squeezed = text[begin:].translate(_WHITE)
        if len(squeezed) // 4 * 3 - 2 > max_bytes:
            raise AttachmentTooLarge(max_bytes)
        text, begin = squeezed, 0
    try:
        return _decoded(text, begin)
    except ValueError as error:  # also raised for non-ASCII characters
        squeezed = text[begin:].translate(_WHITE)
        if len(squeezed) < len(text) - begin:
            return decode_base64(squeezed)
        reason = str(error).partition("\n")[0]
        raise InvalidBase64(f"It is not base64: {reason}.") from error


def id_of(pieces: Sequence[bytes]) -> str:
    """Return the id of an attachment with these bytes."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return f"sha256:{digest.hexdigest()}"


def _decoded(text: str, begin: int) -> Sequence[bytes]:
    pieces = []
    end = len(text)
    for at in range(begin, end, _PIECE):
        piece = text[at : at + _PIECE]
        if at + _PIECE < end and piece[-1] == "=":
            raise binascii.Error("Excess data after padding")
        pieces.append(binascii.a2b_base64(piece.encode("ascii"), strict_mode=True))
    return pieces
