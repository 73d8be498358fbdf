"""Puts files into the body of a request as it is sent, in base64, piece by piece.

A request is encoded with a short placeholder for each file. When its body is sent, the placeholders
are replaced by the files. No thread and no event loop encodes megabytes at once, and no copy of the
whole body is ever in memory (docs/decisions/0074).
"""

import base64
import re
import secrets
from collections.abc import Iterator, Mapping

PIECE_BYTES = 192 * 1024
"""Bytes of a file that are encoded at once, in about a millisecond; a multiple of three."""


class InsertedFiles:
    """The files of one request.

    Args:
        files: Their bytes, by the ids of their attachments.

    Attributes:
        stand_ins: The placeholders to encode instead of the files, by the same ids.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        # Hexadecimal digits are base64 in every alphabet, and no JSON escapes them.
        places = {name: secrets.token_hex(16) for name in files}
        self.stand_ins: Mapping[str, bytes] = {
            name: base64.b64decode(place) for name, place in places.items()
        }
        self._files = {place.encode(): files[name] for name, place in places.items()}
        self._places = re.compile(b"(%b)" % b"|".join(self._files))

    def body(self, encoded: bytes) -> "LargeBody":
        """Return the body of the request that was encoded with the stand-ins."""
        return LargeBody(self._places.split(encoded), self._files)


class LargeBody:
    """A request's body with its files, which can be sent several times.

    Attributes:
        length: Its bytes.
    """

    def __init__(self, parts: list[bytes], files: Mapping[bytes, bytes]) -> None:
        self._parts = [part for part in parts if part]
        self._files = files
        self.length = sum(
            len(part) if part not in files else encoded_length(len(files[part]))
            for part in self._parts
        )

    def __iter__(self) -> Iterator[bytes]:
        """Yield it in pieces."""
        for part in self._parts:
            data = self._files.get(part)
            if data is None:
                yield part
                continue
            for at in range(0, len(data), PIECE_BYTES):
                yield base64.b64encode(data[at : at + PIECE_BYTES])


def encoded_length(size: int) -> int:
    """Return how long so many bytes are in base64."""
    return (size + 2) // 3 * 4
