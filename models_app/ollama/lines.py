"""Splits network data into lines."""

MAX_LINE_BYTES = 16 * 1024 * 1024


class LineSplitter:
    """Splits network reads into whole lines; an unfinished line waits for the next read.

    Attributes:
        held_bytes: How many bytes wait for the end of their line.
    """

    __slots__ = ("_held", "held_bytes")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self.held_bytes = 0

    def push(self, data: bytes) -> bytes:
        """Return the lines completed by this read, as one block; empty without any."""
        cut = data.rfind(b"\n") + 1
        if not cut:
            if data:
                self._held.append(data)
                self.held_bytes += len(data)
            return b""
        rest = data[cut:]
        lines = data if not rest else data[:cut]
        if self._held:
            lines = b"".join((*self._held, lines))
            self._held.clear()
            self.held_bytes = 0
        if rest:
            self._held.append(rest)
            self.held_bytes = len(rest)
        return lines

    def take_rest(self) -> bytes:
        """Return the last line, which no newline ended."""
        rest = b"".join(self._held)
        self._held.clear()
        self.held_bytes = 0
        return rest
