"""Represents a long file of which only the ends are in memory. Pure.

The middle is the text of messages that turns need not decode (docs/decisions/0098). It is in a file
that this process wrote and can recognize (``sessions_app.store.stamps``).
"""

import msgspec


class UnchangedRange(msgspec.Struct, frozen=True):
    """A byte range of the current file to be copied to the next one.

    Attributes:
        start: The offset in the current file.
        length: The number of bytes.
    """

    start: int
    length: int

    def __len__(self) -> int:
        return self.length


class FileEnds(msgspec.Struct, frozen=True, eq=False):
    """A file without the bytes in its middle.

    Attributes:
        front: The bytes before the middle.
        middle: The number of bytes in the middle.
        back: The bytes after the middle.
    """

    front: bytes
    middle: int
    back: bytes

    def __len__(self) -> int:
        """Return the size of the file in bytes."""
        return len(self.front) + self.middle + len(self.back)

    def __getitem__(self, at: slice) -> bytes:
        """Return a slice of the front or the back.

        Raises:
            IndexError: The slice overlaps the middle.
        """
        start, stop, _ = at.indices(len(self))
        if stop <= len(self.front):
            return self.front[start:stop]
        if start < self.back_at:
            raise IndexError("these bytes are not in memory")
        return self.back[start - self.back_at : stop - self.back_at]

    @property
    def back_at(self) -> int:
        """Return the offset of the back."""
        return len(self.front) + self.middle

    @property
    def stays(self) -> UnchangedRange:
        """Return the byte range of the middle."""
        return UnchangedRange(len(self.front), self.middle)

    @property
    def held(self) -> int:
        """Return the number of bytes in memory."""
        return len(self.front) + len(self.back)
