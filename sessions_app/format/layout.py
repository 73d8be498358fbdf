"""Locates the messages in a session's file in this server's layout. Pure.

The markers searched for contain line breaks, which JSON strings never do.
"""

import secrets
from collections.abc import Iterator

PIECE = 1 << 18
"""The bytes of JSON decoded or encoded in one call: more would stall other streams for too long."""

PLACEHOLDER = secrets.token_hex(16)
"""Replaces the messages in an outline; random for each process, so that no file contains it."""
PLACEHOLDER_LINE = b'    "%b"' % PLACEHOLDER.encode()

_OPENING = b'\n  "messages": [\n'
_CLOSING = b"\n  ]"
_USUAL_END = b"\n  ]\n}\n"
_MESSAGE_END = b"\n    }"
_NEXT_MESSAGE = b"\n    },\n    {"


def find_messages(data: bytes) -> tuple[int, int] | None:
    """Return the start and end offsets of the messages' text; None if the layout is different."""
    start = data.find(_OPENING) + len(_OPENING)
    if start < len(_OPENING):
        return None
    usual = data.endswith(_USUAL_END)
    end = len(data) - len(_USUAL_END) if usual else data.find(_CLOSING, start)
    return (start, end) if start <= end else None


def outline_of(head: bytes, tail: bytes) -> bytes:
    """Return the file with the placeholder as its only message.

    Args:
        head: The bytes before the messages.
        tail: The bytes after the messages.
    """
    return b"%b%b%b" % (head, PLACEHOLDER_LINE, tail)


def pieces_of(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the messages' text in pieces of whole messages, without the commas between pieces."""
    while end - start > PIECE:
        cut = data.find(_NEXT_MESSAGE, start + PIECE, end)
        if cut < 0:
            break
        cut += len(_MESSAGE_END)
        yield data[start:cut]
        start = cut + 1
    yield data[start:end]


def comma_before(data: bytes, start: int, end: int, *, messages: int) -> int | None:
    """Return the end offset of the messages' text without its last ``messages`` messages.

    That is the offset of a comma, or ``end`` for none. Returns None if there are fewer messages.
    """
    for _ in range(messages):
        found = data.rfind(_NEXT_MESSAGE, start, end)
        if found < 0:
            return None
        end = found + len(_MESSAGE_END)
    return end
