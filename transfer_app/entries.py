"""Splits an export into entries while it is read, with at most one in memory. Pure.

An array of conversations is split at brackets outside of strings, and each entry is parsed
separately, so that an invalid entry does not affect the others (docs/decisions/0079).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from sessions_app.surrogates import mend_escapes
from transfer_app.deep_json import NotJson, parse_deep

ENTRY_BYTES = 64 << 20
"""The maximum size of an entry, which is also that of sessions."""
ENTRY_PARTS = 4_000_000
"""The maximum estimated values of an entry: some take a hundred times their length in memory."""
_HEAD_BYTES = 64 * 1024

# The outer group has to backtrack over an unterminated string. A possessive one (``*+``) does not
# before Python 3.11.5, as in Debian 12 (https://github.com/python/cpython/issues/106052).
_UP_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*', re.DOTALL)
_UP_TO_QUOTE = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SEPARATORS = re.compile(rb"[\s,]*+")
_WRAPPERS = ("history", "conversations", "chats", "items", "data")
"""The keys of objects that hold nothing but a list of conversations."""
_OF_CONVERSATIONS = {"mapping", "chat_messages", "messages", "messagesTree", "chat", "metadata"}
_WRAPPED = re.compile(
    rb'\s*+\{\s*+(?:"\w++"\s*+:\s*+(?:"[^"\\]*+"|[\w.+-]++)\s*+,\s*+)*"(?:%s)"\s*+:\s*+\[(?=\s*+\{)'
    % "|".join(_WRAPPERS).encode()
)
_QUOTE = ord('"')
_OPENING = b"[{"
_ARRAY_END = ord("]")
_UTF8_MARK = b"\xef\xbb\xbf"
_ENDS_EARLY = "the file ends in the middle of it"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON value of an export, and its position."""

    place: str
    value: Any


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Reports a part of an export that was not imported.

    Attributes:
        place: The position in the file.
        reason: The reason.
        is_empty: Whether the part had no messages, so that nothing was lost.
    """

    place: str
    reason: str
    is_empty: bool = False


def entries(pieces: Iterable[bytes], name: str) -> Iterator[Entry | Problem]:
    """Yield the entries of a file, and a problem for each invalid part.

    The entries are the items of an array, or lines of JSON; any other file is a single entry.

    Args:
        pieces: The file's bytes as they are read.
        name: The name of the file in reports.
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
    elif wrapped := _WRAPPED.match(begin):
        yield from _cut(_after(begin[wrapped.end() :], arriving), name, in_array=True)
    elif _is_line(begin):
        yield from _lines(_after(begin, arriving), name)
    else:
        for found in _cut(_after(begin, arriving), name, in_array=False):
            yield from _unwrapped(found)


def _after(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest


def _unreadable(head: bytes) -> str | None:
    """Return why a file with this beginning is not supported JSON; None if it may be."""
    if not head.strip():
        return "it is empty"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:4]:
        return "it is in UTF-16 or UTF-32, or no text; save it as UTF-8"
    begin = head.removeprefix(_UTF8_MARK).lstrip()
    return (
        None if begin.startswith((b"[", b"{")) else "it is not JSON: neither a list nor an object"
    )


def _is_line(begin: bytes) -> bool:
    """Return whether the first line is a complete entry, or too long to be part of one."""
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


def _unwrapped(entry: Entry | Problem) -> Iterator[Entry | Problem]:
    """Yield the conversations of an object with a list of them, or the entry itself."""
    value = entry.value if isinstance(entry, Entry) else None
    if isinstance(value, dict) and _OF_CONVERSATIONS.isdisjoint(value):
        for key in _WRAPPERS:
            if isinstance(value.get(key), list):
                for number, each in enumerate(value[key], 1):
                    yield Entry(place=f"{entry.place}, {key} {number}", value=each)
                return
    yield entry


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
        entry = _parsed(line, place)
        is_object = isinstance(entry, Entry) and isinstance(entry.value, dict)
        yield from _unwrapped(entry) if is_object else [entry]


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
    """Splits bytes that arrive in pieces into consecutive top-level objects and lists.

    Args:
        in_array: Whether they are items of an array, which ends with a closing bracket.

    Attributes:
        is_done: Whether that bracket was found.
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
        """Return whether the last object is incomplete."""
        return self._depth > 0

    def cut(self, piece: bytes) -> Iterator[bytes | None]:
        """Yield the bytes of the objects that end in this piece, or None for one that is too large.

        Yields empty bytes for anything else between them.
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
                    yield self._end(data[start : at + 1])
            elif self._in_array and data[at] == _ARRAY_END:
                self.is_done = True
            else:
                yield b""
            at += 1
        self._carried = data[at:]
        if self._depth:
            self._keep(data[start:at])

    def _skip(self, data: bytes, at: int) -> tuple[int, bool]:
        """Return the offset of the next bracket, and whether there is other text before it."""
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
        """Return the offset after the end of a string that began earlier, or of the piece's end."""
        found = _UP_TO_QUOTE.match(data, at)
        end = found.end() if found else at
        if end < len(data) and data[end] == _QUOTE:
            self._in_text = False
            return end + 1
        return end  # the end of the piece, except a backslash whose character is in the next one

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > ENTRY_BYTES:
            self._kept.clear()
        else:
            self._kept.append(part)

    def _end(self, last: bytes) -> bytes | None:
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
