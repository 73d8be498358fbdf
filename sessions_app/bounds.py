"""Bounds what bodies of requests and calls of models may hold (docs/decisions/0116). Pure."""

import re

import msgspec

MOST_VALUES = 20_000
"""The most values in a JSON text: one of nothing but brackets takes twenty times its size."""
MOST_HISTORY_VALUES = 200_000
"""The same of a body with a whole conversation, which is read in a thread."""
MOST_ITEMS = 1_000
"""The most entries of a list or an object in a body, where nothing else bounds them."""
LONGEST_APPROVAL_SECONDS = 7 * 86_400
"""The longest time for which a question whether a call may run is open."""
FEW = msgspec.Meta(max_length=MOST_ITEMS)
"""The same for msgspec's types."""
MOST_ERRORS = 20
"""The most errors in the answer to an invalid request; the others are counted."""

_TEXT_PIECE = re.compile(rb'[^"\\]*(?:\\.[^"\\]*){0,4096}', re.DOTALL)
"""A piece of a text: matches at once, whatever comes. Longer ones would keep the interpreter."""


def has_too_many_values(data: bytes, most: int = MOST_VALUES) -> bool:
    """Return whether a JSON text has more values than it may, without parsing it."""
    if _values_in(data) <= most:  # though the texts are counted, too
        return False
    values = texts = end = 0
    # Text by text, so that other threads get their turn: the event loop's above all.
    while (begin := data.find(b'"', end)) >= 0:
        values += _values_in(data[end:begin])
        texts += 1
        if values > most or texts > 2 * most + 2:  # a key and a value
            return True
        end = _end_of_text(data, begin + 1)
    return values + _values_in(data[end:]) > most


def _end_of_text(data: bytes, begin: int) -> int:
    """Return the offset after a string's closing quote; the end of the data if there is none."""
    end = data.find(b'"', begin)
    if end >= 0 and data.find(b"\\", begin, end) < 0:  # as most do
        return end + 1
    end = begin
    while found := _TEXT_PIECE.match(data, end):
        if data[found.end() : found.end() + 1] == b'"':
            return found.end() + 1
        if found.end() == end:
            break
        end = found.end()
    return len(data)


def _values_in(structure: bytes) -> int:
    return structure.count(b",") + structure.count(b"[") + structure.count(b"{")
