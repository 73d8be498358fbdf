"""Seals texts that clients keep for this server without reading them, such as reasoning.

Clients of some protocols return the reasoning of earlier rounds only as an opaque string, which is
called a signature or encrypted content there. It holds the text itself and a code that proves that
this server made it, so nothing is stored, and every node of a cluster can open it
(docs/decisions/0165).
"""

import hmac
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error

from django.utils.crypto import salted_hmac

_BEGIN = "m1."
"""Begins what this server sealed; the number is that of the form."""

MOST_BYTES = 4 * 1024 * 1024
"""The most that the seals of one request hold together; packed, it may be a thousandth of it."""

_CODE_BYTES = 16
_SALT = "mochi.sealed"


def seal(text: str) -> str:
    """Return a text as an opaque string, which ``unseal`` turns back."""
    packed = zlib.compress(text.encode("utf-8", "surrogatepass"))
    return _BEGIN + urlsafe_b64encode(_code(packed) + packed).decode()


class Unsealer:
    """Opens the seals of one request.

    Args:
        room: The most bytes that they may hold together.
    """

    def __init__(self, room: int = MOST_BYTES) -> None:
        self._room = room

    def open(self, sealed: str) -> str | None:
        """Return the text of a seal, or None as ``unseal`` does; None if there is no more room."""
        text = unseal(sealed, self._room)
        self._room -= len(text.encode("utf-8", "surrogatepass")) if text else 0
        return text


def unseal(sealed: str, room: int = MOST_BYTES) -> str | None:
    """Return the text of a seal; None if this server, or one with its key, did not make it.

    People change providers within a conversation, so a foreign seal is no error. Nothing is
    unpacked before the code is checked, and no more than ``room`` bytes; None if there are more.
    """
    if not sealed.startswith(_BEGIN):
        return None
    try:
        data = urlsafe_b64decode(sealed[len(_BEGIN) :])
    except (Error, ValueError):  # ValueError: not ASCII
        return None
    code, packed = data[:_CODE_BYTES], data[_CODE_BYTES:]
    if not hmac.compare_digest(code, _code(packed)):
        return None
    text = zlib.decompressobj().decompress(packed, room + 1)
    return text.decode("utf-8", "surrogatepass") if len(text) <= room else None


def _code(packed: bytes) -> bytes:
    """Return the code of a text, which is made with ``MOCHI_SECRET_KEY``."""
    return salted_hmac(_SALT, packed, algorithm="sha256").digest()[:_CODE_BYTES]
