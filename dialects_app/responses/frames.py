"""Numbers the events of a response and encodes them as server-sent events. Pure."""

from typing import Any

from chat.stream.encoding import ascii_json


class Frames:
    """Collects the encoded events of a response until they are taken.

    Every event has a number, even if it is not sent: a client that reconnects with the number of
    its last event gets the rest, from any process and release.

    Args:
        after: The number of the client's last event; -1 for a new client.

    Attributes:
        number: The number of the next event, from 0 without gaps.
    """

    def __init__(self, after: int = -1) -> None:
        self.number = 0
        self._after = after
        self._chunks: list[bytes] = []

    def add(self, kind: str, **fields: Any) -> None:
        """Add an event with type, number and these fields."""
        number = self.number
        self.number = number + 1
        if number > self._after:
            data = ascii_json({"type": kind, "sequence_number": number, **fields})
            self._chunks.append(f"event: {kind}\ndata: {data}\n\n".encode("ascii"))

    def add_delta(self, before: str, literal: str, after: str) -> None:
        """Add a piece of text, without decoding or encoding it. The hot path.

        Args:
            before: The frame up to the number of the event.
            literal: The text, as a JSON string.
            after: The frame between the number and the text.
        """
        number = self.number
        self.number = number + 1
        if number > self._after:
            self._chunks.append(f"{before}{number}{after}{literal}}}\n\n".encode("ascii"))

    def take(self) -> bytes:
        """Return the events since the last call."""
        chunks = self._chunks
        if not chunks:
            return b""
        self._chunks = []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
