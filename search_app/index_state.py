"""Declares the state of an index: whether it is usable, and whether it has changed."""

import sqlite3
import unicodedata

import msgspec

VERSION = f"2 {unicodedata.unidata_version}"
"""The version of all that rows depend on; an index of another version is rebuilt."""


class IndexUnavailable(Exception):
    """The index can't be used.

    Attributes:
        is_missing: Whether the index does not exist.
        is_broken: Whether the index must be rebuilt.
    """

    def __init__(self, reason: str, *, is_missing: bool = False, is_broken: bool = False) -> None:
        super().__init__(reason)
        self.is_missing = is_missing
        self.is_broken = is_broken


class IndexState(msgspec.Struct, frozen=True):
    """Counters that tell whether an index has changed.

    Attributes:
        generation: The id of the index, which changes with a rebuild.
        changes: The number of sessions added so far.
        removals: The number of removals of sessions so far.
    """

    generation: str
    changes: int
    removals: int


def state_of(connection: sqlite3.Connection) -> IndexState:
    """Return the state of the index; raises ``IndexUnavailable`` for another version."""
    row = connection.execute("SELECT * FROM meta").fetchone()
    if row is None or row[0] != VERSION:
        raise IndexUnavailable("of another version", is_broken=True)
    return IndexState(*row[1:])
