"""Splits texts into words for search. Pure.

Shared by index, scan and queries. Case is ignored, ``ü`` is folded to ``u`` and ``ß`` to ``ss``.
Scripts without spaces between words (Chinese, Japanese, Korean, Thai, ...) are split into
characters, so that any sequence of characters can be found.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

PIECE = 16 * 1024
"""The characters split in one call, which holds the GIL."""

_MARKS = re.compile("[\u0300-\u036f]")
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3041-\u30ff\u3105-\u318f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_WRITTEN_WORD = re.compile(rf"[{_UNSPACED}]\u3099?|(?:[^\W_{_UNSPACED}][\u0300-\u036f]*)+")
_ASCII_WORD = re.compile("[a-z0-9]+")
_END_OF_PIECE = re.compile(r"\s")


def folded(text: str) -> str:
    """Fold case and diacritics of a text, for comparison."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFKC", _MARKS.sub("", text).casefold())


def words_of(text: str) -> list[str]:
    """Return the folded words of a text in order."""
    if len(text) <= PIECE:
        return _split(text)
    return [word for piece in _pieces(text) for word in _split(piece)]


def written_words(text: str) -> Iterator[tuple[int, int, Sequence[str]]]:
    """Yield (start, end, folded words) for each word of a text."""
    for match in _WRITTEN_WORD.finditer(text):
        yield match.start(), match.end(), _split(match[0])


def _split(text: str) -> list[str]:
    found = folded(text)
    return (_ASCII_WORD if found.isascii() else _WORD).findall(found)


def _pieces(text: str) -> Iterator[str]:
    """Split a long text at blanks, or after a multiple of the length if there are none."""
    start = 0
    while start < len(text):
        match = _END_OF_PIECE.search(text, start + PIECE, start + 2 * PIECE)
        end = match.start() if match else start + 2 * PIECE
        yield text[start:end]
        start = end
