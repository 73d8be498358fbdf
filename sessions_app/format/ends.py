"""Represents a long file of which only the ends are in memory. Pure.

The middle is the text of messages that turns need not decode (docs/decisions/0098), in a file that
this process wrote and can tell from any other (``sessions_app.store.stamps``).
"""

import msgspec


class Stays(msgspec.Struct, frozen=True):
    """Bytes of the file so far that the next one shall hold too.

    Attributes:
        start: Where they stand in the file so far.
        length: How many they are.
    """

    start: int
    length: int

    def __len__(self) -> int:
        return self.length


class Ends(msgspec.Struct, frozen=True, eq=False):
    """A file without the bytes in its middle.

    Attributes:
        front: What stands before them.
        middle: How many they are.
        back: What stands behind them.
    """

    front: bytes
    middle: int
    back: bytes

    def __len__(self) -> int:
        """Return how many bytes the file has."""
        return len(self.front) + self.middle + len(self.back)

    def __getitem__(self, at: slice) -> bytes:
        """Return a part of the front or of the back.

        Raises:
            IndexError: Some of it stands in the middle.
        """
        start, stop, _ = at.indices(len(self))
        if stop <= len(self.front):
            return self.front[start:stop]
        if start < self.back_at:
            raise IndexError("these bytes are not in memory")
        return self.back[start - self.back_at : stop - self.back_at]

    @property
    def back_at(self) -> int:
        """Return where the back begins."""
        return len(self.front) + self.middle

    @property
    def stays(self) -> Stays:
        """Return the middle."""
        return Stays(len(self.front), self.middle)

    @property
    def held(self) -> int:
        """Return how many bytes are in memory."""
        return len(self.front) + len(self.back)
