"""Parses search queries. Pure.

All words must occur (AND), ``"several words"`` in a row; ``-word`` and ``-"words"`` must not occur;
``begin*`` matches a prefix. Any text is a valid query: other characters are ignored.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from search_app.words import words_of

MOST_PLACES = 1000
"""The maximum occurrences of a term that are looked at: more make no difference to anybody."""
_PART = re.compile(r'(?P<without>(?<!\S)-)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))(?P<star>\*)?')


class Term(msgspec.Struct, frozen=True):
    """A word or a phrase.

    Attributes:
        words: The words, folded.
        is_prefix: Whether the last word is a prefix.
    """

    words: tuple[str, ...]
    is_prefix: bool = False

    @property
    def is_word(self) -> bool:
        """Return whether the term is a whole word alone, as which it needs no search."""
        return len(self.words) == 1 and not self.is_prefix

    def places(self, words: Sequence[str]) -> Iterator[int]:
        """Yield the indexes of the term's first occurrences in the words of a text.

        They are looked for in a text of the words, for which Python's search takes time that is
        linear in its length, whatever repeats itself in it.
        """
        text = f" {' '.join(words)} "
        term = f" {' '.join(self.words)}{'' if self.is_prefix else ' '}"
        place = start = 0
        for _ in range(MOST_PLACES):
            found = text.find(term, start)
            if found < 0:
                return
            place += text.count(" ", start, found)
            yield place
            start = found + 1
            place += 1

    def is_in(self, words: Sequence[str], present: frozenset[str]) -> bool:
        """Return whether the term occurs in the words of a text."""
        if not present.issuperset(self.words[:-1] if self.is_prefix else self.words):
            return False
        return self.is_word or next(self.places(words), None) is not None


class Query(msgspec.Struct, frozen=True):
    """The words of a search.

    Attributes:
        wanted: The terms that must all occur; without any, nothing matches.
        unwanted: The terms that must not occur.
    """

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...] = ()

    def matches(self, text: str) -> bool:
        """Return whether the text matches."""
        words = words_of(text)
        present = frozenset(words)
        return (
            bool(self.wanted)
            and all(term.is_in(words, present) for term in self.wanted)
            and not any(term.is_in(words, present) for term in self.unwanted)
        )

    def searches(self) -> int:
        """Return for how many terms each word of a text is looked at: phrases and prefixes."""
        return sum(not term.is_word for term in (*self.wanted, *self.unwanted))

    def expression(self) -> str:
        """Return the query as an FTS5 expression, with all words as strings."""
        wanted = " AND ".join(map(_string, self.wanted))
        if not self.unwanted:
            return wanted
        return f"({wanted}) NOT ({' OR '.join(map(_string, self.unwanted))})"


def read_query(text: str) -> Query:
    """Parse a query written by a person."""
    wanted: dict[Term, None] = {}  # an ordered set
    unwanted: dict[Term, None] = {}
    for part in _PART.finditer(text):
        written = part["phrase"] if part["phrase"] is not None else part["word"]
        words = tuple(words_of(written))
        if not words:
            continue
        is_prefix = bool(part["star"]) or (part["word"] is not None and written.endswith("*"))
        (unwanted if part["without"] else wanted)[Term(words, is_prefix)] = None
    return Query(tuple(wanted), tuple(unwanted))


def _string(term: Term) -> str:
    return f'"{" ".join(term.words)}"{"*" if term.is_prefix else ""}'
