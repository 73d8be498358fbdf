"""Finds the entries of an export while it is read, so that no more than one is in memory. Pure.

An array of conversations is cut at the brackets that lie in no text, and each entry is parsed
alone: what is broken in one of them costs that one (docs/decisions/0079).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from sessions_app.surrogates import mend_escapes
from sessions_app.transfer.deep_json import NotJson, parse_deep

ENTRY_BYTES = 64 << 20
"""The largest entry; no session may be larger."""
ENTRY_PARTS = 4_000_000
"""The most values that an entry may seem to have: some take a hundred times their length."""
_HEAD_BYTES = 64 * 1024

# The outer group gives back a text without an end. A possessive one (``*+``) keeps it before
# Python 3.11.5, as in Debian 12 (https://github.com/python/cpython/issues/106052).
_UP_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*', re.DOTALL)
_UP_TO_QUOTE = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SEPARATORS = re.compile(rb"[\s,]*+")
_HISTORY = re.compile(rb'\s*\{\s*(?:"version"\s*:\s*\d+\s*,\s*)?"history"\s*:\s*\[')
_QUOTE = ord('"')
_OPENING = b"[{"
_ARRAY_END = ord("]")
_UTF8_MARK = b"\xef\xbb\xbf"
_ENDS_EARLY = "the file ends in the middle of it"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON value of an export, and where it stands."""

    place: str
    value: Any


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Says where something is that was not taken in, and why.

    Attributes:
        place: Where it stands in its file.
        reason: Why it was not taken in.
        is_empty: Whether nothing was lost with it: there are no messages.
    """

    place: str
    reason: str
    is_empty: bool = False


def entries(pieces: Iterable[bytes], name: str) -> Iterator[Entry | Problem]:
    """Yield the entries of a file, and a problem for each part that is not an entry.

    An array holds entries, lines of JSON are entries, and any other file is one.

    Args:
        pieces: The file's bytes, as they are read.
        name: What the file is called in reports.
    """
    arriving = iter(pieces)
    head = b""
    for piece in arriving:
        head += piece
        if len(head) >= _HEAD_BYTES:
            break
    if (reason := _unreadable(head)) is not None:
        yield Problem(place=name, reason=reason)
        return
    head = head.removeprefix(_UTF8_MARK)
    begin = head.lstrip()
    if begin.startswith(b"["):
        yield from _cut(_after(begin[1:], arriving), name, in_array=True)
    elif history := _HISTORY.match(begin):
        yield from _cut(_after(begin[history.end() :], arriving), name, in_array=True)
    elif _is_line(begin):
        yield from _lines(_after(begin, arriving), name)
    else:
        for found in _cut(_after(begin, arriving), name, in_array=False):
            yield from _unwrapped(found)


def _after(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest


def _unreadable(head: bytes) -> str | None:
    """Return why a file that begins so holds no JSON that is read here; None if it may."""
    if not head.strip():
        return "it is empty"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:4]:
        return "it is in UTF-16 or UTF-32, or no text; save it as UTF-8"
    begin = head.removeprefix(_UTF8_MARK).lstrip()
    return (
        None if begin.startswith((b"[", b"{")) else "it is not JSON: neither a list nor an object"
    )


def _is_line(begin: bytes) -> bool:
    """Return whether the file's first line is a whole entry, or too long to be a part of one."""
    line, newline, _ = begin.partition(b"\n")
    if not newline:
        return True
    try:
        msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    except RecursionError:
        return True
    return True


def _unwrapped(found: Entry | Problem) -> Iterator[Entry | Problem]:
    """Yield the conversations of an object that holds them under ``history``."""
    history = found.value.get("history") if isinstance(found, Entry) else None
    if not isinstance(found, Entry) or not isinstance(history, list):
        yield found
        return
    for number, value in enumerate(history, 1):
        yield Entry(place=f"{found.place}, history {number}", value=value)


def _lines(pieces: Iterable[bytes], name: str) -> Iterator[Entry | Problem]:
    number, size = 0, 0
    parts: list[bytes] = []
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            number += 1
            parts.append(line)
            yield from _line(parts, size + len(line), f"{name}, line {number}")
            parts, size = [], 0
        size += len(rest)
        parts = [*parts, rest] if size <= ENTRY_BYTES else []
    yield from _line(parts, size, f"{name}, line {number + 1}")


def _line(parts: list[bytes], size: int, place: str) -> Iterator[Entry | Problem]:
    if size > ENTRY_BYTES:
        yield Problem(place=place, reason=_too_large())
    elif line := b"".join(parts).strip():
        for found in [_parsed(line, place)]:
            yield from _unwrapped(found) if _is_object(found) else [found]


def _is_object(found: Entry | Problem) -> bool:
    return isinstance(found, Entry) and isinstance(found.value, dict)


def _cut(pieces: Iterable[bytes], name: str, *, in_array: bool) -> Iterator[Entry | Problem]:
    cutter = _Cutter(in_array=in_array)
    number = 0
    for piece in pieces:
        for entry in cutter.cut(piece):
            number += 1
            place = f"{name}, entry {number}" if in_array or number > 1 else name
            if entry is None:
                yield Problem(place=place, reason=_too_large())
            elif entry:
                yield _parsed(entry, place)
            else:
                yield Problem(place=place, reason="it is neither an object nor a list")
        if cutter.is_done:
            return
    if in_array or cutter.is_within:
        place = f"{name}, entry {number + 1}" if in_array or number else name
        yield Problem(place=place, reason=_ENDS_EARLY)


class _Cutter:
    """Cuts bytes that arrive in pieces into the objects and lists that lie side by side in them.

    Args:
        in_array: Whether a closing bracket beside them ends it all.

    Attributes:
        is_done: Whether that bracket has come.
    """

    def __init__(self, *, in_array: bool) -> None:
        self._in_array = in_array
        self._depth = 0
        self._in_text = False
        self._kept: list[bytes] = []
        self._size = 0
        self._carried = b""
        self.is_done = False

    @property
    def is_within(self) -> bool:
        """Return whether an object has begun that has no end yet."""
        return self._depth > 0

    def cut(self, piece: bytes) -> Iterator[bytes | None]:
        """Yield the objects that end in this piece: None for one that is too large, else its bytes.

        Anything else beside them is no bytes at all.
        """
        data = self._carried + piece
        at = start = 0
        while not self.is_done:
            at, is_odd = self._skip(data, at)
            if is_odd:
                yield b""
            if at == len(data) or self._in_text:
                break
            if data[at] in _OPENING:
                start = start if self._depth else at
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    yield self._taken(data[start : at + 1])
            elif self._in_array and data[at] == _ARRAY_END:
                self.is_done = True
            else:
                yield b""
            at += 1
        self._carried = data[at:]
        if self._depth:
            self._keep(data[start:at])

    def _skip(self, data: bytes, at: int) -> tuple[int, bool]:
        """Return where the next bracket is, and whether anything lies there beside the objects."""
        if self._in_text:
            at = self._skip_text(data, at)
            if self._in_text:
                return at, False
        found = _UP_TO_BRACKET.match(data, at)
        end = found.end() if found else at
        is_odd = not self._depth and _SEPARATORS.fullmatch(data, at, end) is None
        if end == len(data) or data[end] != _QUOTE:
            return end, is_odd
        self._in_text = True
        return self._skip_text(data, end + 1), is_odd or not self._depth

    def _skip_text(self, data: bytes, at: int) -> int:
        """Return where a text goes on that has no end yet, or what comes behind its end."""
        found = _UP_TO_QUOTE.match(data, at)
        end = found.end() if found else at
        if end < len(data) and data[end] == _QUOTE:
            self._in_text = False
            return end + 1
        return end  # the end of the piece, but for a backslash whose letter is in the next one

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > ENTRY_BYTES:
            self._kept.clear()
        else:
            self._kept.append(part)

    def _taken(self, last: bytes) -> bytes | None:
        self._keep(last)
        entry = b"".join(self._kept) if self._size <= ENTRY_BYTES else None
        self._kept.clear()
        self._size = 0
        return entry


def _parsed(data: bytes, place: str) -> Entry | Problem:
    if data.count(b",") + data.count(b"[") + data.count(b"{") > ENTRY_PARTS:
        return Problem(place=place, reason=f"it has more than {ENTRY_PARTS:,} values")
    try:
        return Entry(place=place, value=_decoded(data))
    except UnicodeDecodeError:
        return Problem(place=place, reason="it is not in UTF-8")
    except (msgspec.MsgspecError, NotJson) as error:
        return Problem(place=place, reason=f"it is not JSON: {error}")


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        return parse_deep(mend_escapes(data).decode())
    except msgspec.DecodeError:
        data.decode()
        mended = mend_escapes(data)
        if mended == data:
            raise
        return msgspec.json.decode(mended)


def _too_large() -> str:
    return f"it is larger than {ENTRY_BYTES >> 20} MiB"
