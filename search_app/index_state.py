"""Declares whether an index is usable."""

import unicodedata

VERSION = f"3 {unicodedata.unidata_version}"
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
