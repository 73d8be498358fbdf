"""Encodes large documents to JSON in pieces. Pure.

One call of a JSON library on 60 MB holds the GIL for hundreds of milliseconds, in any thread, which
stalls every stream of the process. Here no call takes more than a few milliseconds, and other
threads run in between.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

PIECE_BYTES = 64 * 1024
MOST_ITEMS = 256

Item = TypeVar("Item")
Encode = Callable[[Mapping[str, Any]], bytes]


@dataclass(frozen=True, slots=True)
class LongList:
    """A long list in a document.

    Attributes:
        items: The items.
        to_json: Converts an item to a JSON-compatible value.
        size_of: Estimates the size of an item's JSON in bytes.
    """

    items: Sequence[Any]
    to_json: Callable[[Any], Any]
    size_of: Callable[[Any], int]


def json_pieces(document: Mapping[str, Any], encode: Encode) -> Iterator[bytes]:
    """Yield a document's JSON in pieces of about 64 KiB, which join to what ``encode`` returns.

    Args:
        document: The document; its long lists are ``LongList``.
        encode: Encodes a small document, compact or indented.
    """
    marks = {
        secrets.token_hex(16): value
        for value in document.values()
        if isinstance(value, LongList) and value.items
    }
    names = iter(marks)
    skeleton = {
        key: ([next(names)] if value.items else []) if isinstance(value, LongList) else value
        for key, value in document.items()
    }
    rest = encode(skeleton)
    for mark, many in marks.items():
        before, _, rest = rest.partition(b'"%b"' % mark.encode())
        yield before
        yield from _items(many, encode)
    yield rest


def _items(many: LongList, encode: Encode) -> Iterator[bytes]:
    """Yield the items' JSON with commas and the indentation of their depth."""
    prefix, _, suffix = encode({"": [0]}).partition(b"0")
    comma = b"," + prefix.rpartition(b"[")[2]
    first = True
    for some in in_pieces(many.items, many.size_of):
        data = encode({"": [many.to_json(item) for item in some]})
        data = data[len(prefix) : len(data) - len(suffix)]
        yield data if first else comma + data
        first = False


def in_pieces(items: Iterable[Item], size_of: Callable[[Item], int]) -> Iterator[Sequence[Item]]:
    """Group consecutive items up to ``PIECE_BYTES``."""
    some: list[Item] = []
    size = 0
    for item in items:
        weight = size_of(item)
        if some and (size + weight > PIECE_BYTES or len(some) == MOST_ITEMS):
            yield some
            some, size = [], 0
        some.append(item)
        size += weight
    if some:
        yield some
