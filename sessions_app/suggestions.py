"""Suggests corrections of misspelt words. Pure."""

import difflib
from collections.abc import Collection

LONGEST = 100
"""The characters of a word that are compared; the time grows with their square."""


def suggestion(word: str, choices: Collection[str], *, similarity: float = 0.6) -> str:
    """Return ``; did you mean X?`` if a known word is similar enough, else an empty string.

    Args:
        word: The misspelt word.
        choices: The valid words.
        similarity: The minimum similarity, from 0 to 1.
    """
    close = difflib.get_close_matches(word[:LONGEST], choices, n=1, cutoff=similarity)
    return f"; did you mean {close[0]}?" if close else ""
