"""Cleans texts of models, tools and files before they are shown on a terminal."""

import json
import os
import re
from typing import IO

# Controls but for newline and tab, halves of surrogate pairs, line separators, and what turns the
# direction of the text after it. Joiners and wide blanks stay: emoji and many scripts need them.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

# Printable for Python, and seen as nothing or as a blank: fillers of Hangul, Khmer's inherent
# vowels, a joiner, variation selectors, Braille without dots. Unicode: DerivedCoreProperties.txt,
# "Default_Ignorable_Code_Point", but for what `str.isprintable` refuses already.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def unseen_escaped(text: str) -> str:
    """Return a text on one line, with JSON's escapes for what is not seen or turns what is.

    For names and arguments that somebody decides about.
    """
    if text.isprintable() and _UNSEEN.search(text) is None:
        return text
    return "".join(
        char if char.isprintable() and _UNSEEN.match(char) is None else _escaped(char)
        for char in text
    )


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


def printable(text: str) -> str:
    """Remove the characters by which a text could steer the terminal, or look like another one."""
    return _STEERING.sub("", text)


def steering_escaped(text: str) -> str:
    """Return the same JSON with escapes for those characters, which can only stand in strings."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def has_colors(stream: IO[str]) -> bool:
    """Return whether a stream is a terminal whose user did not ask for plain text."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain
