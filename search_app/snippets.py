"""Extracts the part of a text around a match. Pure.

A snippet is plain text in pieces with a flag for matches. There is no markup in the text, because a
message could contain the same.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from search_app.entries import Entry, FoundRole
from search_app.query import Query
from search_app.words import words_of, written_words

LENGTH = 240
BEFORE = 60
"""The minimum number of characters before the first match, if there are so many."""
_WINDOW = 16 * 1024
_WEIGHTS: dict[FoundRole, float] = {"title": 3.0, "summary": 2.0, "tool": 0.5}
_BLANKS = re.compile(r"\s+")
_Span = tuple[int, int]


class Piece(msgspec.Struct, frozen=True):
    """A piece of a snippet; ``match`` tells whether it matched the query."""

    text: str
    match: bool


def snippet(text: str, query: Query) -> Sequence[Piece]:
    """Return the pieces of a text around the first match of the query."""
    spans = _first_spans(text, query)
    start, end = _cut(text, spans[0][0] if spans else 0)
    pieces: list[Piece] = []
    place = start
    for begin, stop in spans:
        if begin < place or stop > end:
            continue
        pieces += [Piece(text[place:begin], False), Piece(text[begin:stop], True)]
        place = stop
    pieces.append(Piece(text[place:end], False))
    shown = [Piece(_BLANKS.sub(" ", piece.text), piece.match) for piece in pieces if piece.text]
    before = [Piece("… ", False)] if start else []
    after = [Piece(" …", False)] if end < len(text) else []
    return [*before, *shown, *after]


def score(entry: Entry, query: Query) -> float:
    """Return the relevance of an entry: titles count more, tool results less."""
    words = words_of(entry.text)
    occurring = Counter(words)
    counts = [
        occurring[term.words[0]] if term.is_word else sum(1 for _ in term.places(words))
        for term in query.wanted
    ]
    fit = sum(count / (count + 1.2) for count in counts) / max(len(counts), 1)
    length = 1 + math.log1p(len(words) / 100)
    return round(_WEIGHTS.get(entry.role, 1.0) * fit / length, 4)


def _first_spans(text: str, query: Query) -> list[_Span]:
    """Return the matches in the first part of the text that has any."""
    for start in range(0, max(len(text), 1), _WINDOW):
        # With an overlap, to find matches across the end of a window.
        if spans := sorted(_spans(text[start : start + _WINDOW + LENGTH], query)):
            return [(start + begin, start + end) for begin, end in spans]
    return []


def _spans(text: str, query: Query) -> Iterator[_Span]:
    words: list[str] = []
    places: list[_Span] = []
    for begin, end, folded_words in written_words(text):
        words += folded_words
        places += [(begin, end)] * len(folded_words)
    alone = {term.words[0] for term in query.wanted if term.is_word}
    yield from (places[place] for place, word in enumerate(words) if word in alone)
    for term in query.wanted:
        for place in () if term.is_word else term.places(words):
            yield places[place][0], places[place + len(term.words) - 1][1]


def _cut(text: str, first: int) -> _Span:
    """Return the start and end of the snippet, at nearby blanks if there are any."""
    start = max(0, first - BEFORE)
    if start:
        blank = _BLANKS.search(text, start, first)
        start = blank.end() if blank else start
    end = min(len(text), start + LENGTH)
    if end < len(text):
        blank_at = max(text.rfind(" ", first + 1, end), text.rfind("\n", first + 1, end))
        if blank_at > start + LENGTH // 2:
            end = blank_at
    return start, end
