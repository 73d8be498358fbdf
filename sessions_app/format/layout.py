"""Finds the messages in a session's file that this server wrote. Pure.

Nothing of ours is found inside of a text: in JSON, no string holds the end of a line.
"""

import secrets
from collections.abc import Iterator

PIECE = 1 << 18
"""Bytes of JSON that are read or made at once: more would stop all other streams for too long."""

PLACEHOLDER = secrets.token_hex(16)
"""Stands for the messages in the file's outline; new in each process, so that no file holds it."""
PLACEHOLDER_LINE = b'    "%b"' % PLACEHOLDER.encode()

_OPENING = b'\n  "messages": [\n'
_CLOSING = b"\n  ]"
_USUAL_END = b"\n  ]\n}\n"
_MESSAGE_END = b"\n    }"
_NEXT_MESSAGE = b"\n    },\n    {"


def find_messages(data: bytes) -> tuple[int, int] | None:
    """Return where the messages' text begins and ends; None where the file is not like ours."""
    start = data.find(_OPENING) + len(_OPENING)
    if start < len(_OPENING):
        return None
    usual = data.endswith(_USUAL_END)
    end = len(data) - len(_USUAL_END) if usual else data.find(_CLOSING, start)
    return (start, end) if start <= end else None


def outline_of(head: bytes, tail: bytes) -> bytes:
    """Return the file with the placeholder as its only message.

    Args:
        head: What stands before the messages.
        tail: What stands behind them.
    """
    return b"%b%b%b" % (head, PLACEHOLDER_LINE, tail)


def pieces_of(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the messages' text in pieces that end where a message ends, without the commas."""
    while end - start > PIECE:
        cut = data.find(_NEXT_MESSAGE, start + PIECE, end)
        if cut < 0:
            break
        cut += len(_MESSAGE_END)
        yield data[start:cut]
        start = cut + 1
    yield data[start:end]


def comma_before(data: bytes, start: int, end: int, *, messages: int) -> int | None:
    """Return where the messages' text ends without so many of the last ones.

    There stands a comma, if it is not the end. None where there are not so many.
    """
    for _ in range(messages):
        found = data.rfind(_NEXT_MESSAGE, start, end)
        if found < 0:
            return None
        end = found + len(_MESSAGE_END)
    return end


def comma_behind(data: bytes, start: int, end: int, *, messages: int) -> int | None:
    """Return where the comma behind so many messages stands; None where there is none."""
    at = start
    for _ in range(messages):
        found = data.find(_NEXT_MESSAGE, at, end)
        if found < 0:
            return None
        at = found + len(_MESSAGE_END)
    return at
