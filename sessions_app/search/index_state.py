"""Declares the state of an index: whether it can be used, and whether it has changed."""

import sqlite3
import unicodedata

import msgspec

VERSION = f"2 {unicodedata.unidata_version}"
"""Names all that the rows depend on; an index of another version is built anew."""


class IndexUnavailable(Exception):
    """The index can't be used.

    Attributes:
        is_missing: Whether there is none.
        is_broken: Whether it must be built anew.
    """

    def __init__(self, reason: str, *, is_missing: bool = False, is_broken: bool = False) -> None:
        super().__init__(reason)
        self.is_missing = is_missing
        self.is_broken = is_broken


class IndexState(msgspec.Struct, frozen=True):
    """The state of an index, as numbers that tell whether it has changed.

    Attributes:
        generation: Names the index: one that is built anew has another.
        changes: How many sessions were put in so far.
        removals: How often sessions were taken out.
    """

    generation: str
    changes: int
    removals: int


def state_of(connection: sqlite3.Connection) -> IndexState:
    """Return how the index stands; ``IndexUnavailable`` if it is none of this version."""
    row = connection.execute("SELECT * FROM meta").fetchone()
    if row is None or row[0] != VERSION:
        raise IndexUnavailable("of another version", is_broken=True)
    return IndexState(*row[1:])
