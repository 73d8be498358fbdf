"""Numbers the events of a response and encodes them as server-sent events. Pure."""

from typing import Any

import msgspec

_encode = msgspec.json.Encoder(enc_hook=dict).encode


def encoded(value: object) -> msgspec.Raw:
    """Return a value that several events have, encoded once for all of them."""
    return msgspec.Raw(_encode(value))


class Frames:
    """Collects the encoded events of a response until they are taken.

    Every event has a number, whether it is wanted or not: a client that comes back with the number
    of the last one it has gets the rest, from any process and in any release.

    Args:
        after: The number of the last event that the client has; -1 for a new one.

    Attributes:
        number: The number of the next event, from 0 without gaps.
    """

    def __init__(self, after: int = -1) -> None:
        self.number = 0
        self._after = after
        self._chunks: list[bytes] = []

    def add(self, kind: str, **fields: Any) -> None:
        """Add an event with its type, its number and these fields."""
        number = self.number
        self.number = number + 1
        if number > self._after:
            data = _encode({"type": kind, "sequence_number": number, **fields})
            self._chunks.append(b"event: %b\ndata: %b\n\n" % (kind.encode(), data))

    def add_delta(self, before: str, literal: str, after: str) -> None:
        """Add a piece of text: the hot path, in which nothing is decoded or encoded but ASCII.

        Args:
            before: The frame up to the number of the event.
            literal: The text, as a JSON string.
            after: The frame between the number and the text; what follows the text is the same
                for all.
        """
        number = self.number
        self.number = number + 1
        if number > self._after:
            self._chunks.append(f"{before}{number}{after}{literal}}}\n\n".encode("ascii"))

    def take(self) -> bytes:
        """Return the events since the last time."""
        chunks = self._chunks
        if not chunks:
            return b""
        self._chunks = []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
