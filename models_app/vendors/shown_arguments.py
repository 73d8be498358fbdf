"""Passes on pieces of a call's arguments while a model writes them. Pure."""

import json
import re
import string

from sessions_app.finite_numbers import finite_float

_BEGINNING = re.compile(r"\s*(?:\{\s*([^\s])|[^\s{])")
_MARK = re.compile(r'\\.|["{}\[\]\x00-\x1f]|-?(?:NaN|Infinity|\d[-+.\deE]*)', re.DOTALL)
_BRACKETS = frozenset("{}[]")
_OF_WORDS = f"{string.ascii_letters}{string.digits}-+."
_LONGEST_WORD = 512


class ShownArguments:
    """Passes on the arguments of one call as far as the call runs with them.

    Clients join the pieces. So what is repaired once it is whole (``call_arguments``) is not shown
    before: an empty object first, an object as a string, or anything after the object; raw line
    breaks in strings are escaped, and numbers that JSON lacks are text.
    """

    def __init__(self) -> None:
        self._held = ""
        self._has_begun = False
        self._is_shown = False
        self._in_string = False
        self._depth = 0

    def feed(self, piece: str) -> str:
        """Take the next piece; return what to show of it, which may be empty."""
        text, self._held = self._held + piece, ""
        if not self._has_begun:
            beginning = _BEGINNING.match(text)
            if beginning is None:
                self._held = text
                return ""
            self._has_begun = True
            self._is_shown = beginning[1] not in (None, "}")
        if (len(text) - len(text.rstrip("\\"))) % 2:
            text, self._held = text[:-1], "\\"
        shown: list[str] = []
        at = 0
        for mark in _MARK.finditer(text):
            found = mark[0]
            if found == '"':
                self._in_string = not self._in_string
            elif self._in_string and found < " ":
                if self._is_shown:
                    shown += [text[at : mark.start()], json.dumps(found)[1:-1]]
                    at = mark.end()
            elif self._in_string:
                continue
            elif found in _BRACKETS:
                self._depth += 1 if found in "{[" else -1
                if self._is_shown and not self._depth:
                    shown.append(text[at : mark.end()])
                    self._is_shown = False
            elif self._is_shown and mark.end() < len(text):
                shown += [text[at : mark.start()], _number(found)]
                at = mark.end()
        return "".join([*shown, self._without_last_word(text[at:])] if self._is_shown else shown)

    def _without_last_word(self, text: str) -> str:
        """Hold back a number or name at the end, which the next piece may go on with."""
        size = len(text) - len(text.rstrip(_OF_WORDS))
        if self._in_string or not 0 < size <= _LONGEST_WORD:
            return text
        self._held = text[-size:] + self._held
        return text[:-size]


def _number(text: str) -> str:
    """Return a number as JSON: one that JSON lacks as a string, as ``call_arguments`` reads it."""
    try:
        is_finite = text.lstrip("-").isdecimal() or isinstance(finite_float(text), float)
    except ValueError:  # it is no number
        return text
    return text if is_finite else f'"{text}"'
