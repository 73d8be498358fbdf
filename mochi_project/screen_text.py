"""Cleans texts of models, tools and files before they are shown on a terminal. Pure."""

import re

# Controls but for newline and tab, halves of surrogate pairs, line separators, and what turns the
# direction of the text after it. Joiners and wide blanks stay: emoji and many scripts need them.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Remove the characters by which a text could steer the terminal, or look like another one."""
    return _STEERING.sub("", text)


def steering_escaped(text: str) -> str:
    """Return the same JSON with escapes for those characters, which can only stand in strings."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
