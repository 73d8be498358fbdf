"""Suggests the known word that a misspelt one may stand for. Pure."""

import difflib
from collections.abc import Collection


def suggestion(word: str, known: Collection[str], *, similarity: float = 0.5) -> str:
    """Return ``; did you mean X?`` if a known word is alike enough, else nothing.

    Args:
        word: The misspelt word.
        known: The words that it may stand for.
        similarity: How alike they must be at least, from 0 to 1.
    """
    close = difflib.get_close_matches(word[:300], known, n=1, cutoff=similarity)
    return f"; did you mean {close[0]}?" if close else ""
