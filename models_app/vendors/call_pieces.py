"""Finds the call that each piece of a streamed tool call belongs to. Pure.

OpenAI numbers its calls, and gives id and name with the first piece of each. Servers that copy its
API also leave out numbers, count pieces instead of calls, repeat names, or give each piece an id of
its own.
"""

import re
from typing import Any

import msgspec

_MARK = re.compile(r'\\.|["{}\[\]]', re.DOTALL)


class CallPiece(msgspec.Struct, frozen=True):
    """A piece of a call; what it does not say is None, or empty."""

    index: float | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""


class _Call:
    """A call of which some pieces have come."""

    def __init__(self, number: int, piece: CallPiece) -> None:
        self.number = number
        self.index = piece.index
        self.id = piece.id
        self.name = ""
        self._pieces: list[str] = []
        self._held = ""
        self._depth = 0
        self._in_string = False

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def has_text(self) -> bool:
        return bool(self._pieces)

    @property
    def is_complete(self) -> bool:
        """Return whether its arguments are whole JSON values."""
        return self.has_text and not self._depth and not self._in_string

    def add(self, arguments: str) -> None:
        if not (arguments if self._pieces else arguments.strip()):
            return
        self._pieces.append(arguments)
        text = self._held + arguments
        self._held = "\\" if (len(text) - len(text.rstrip("\\"))) % 2 else ""
        for mark in _MARK.findall(text):
            if mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string and len(mark) == 1:
                self._depth += 1 if mark in "{[" else -1


class CallPieces:
    """Numbers the calls of one answer in the order in which they begin."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[float, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def place(self, piece: CallPiece) -> dict[str, Any]:
        """Return a piece as OpenAI sends it: numbered, and with what is new in its id and name."""
        call = self._owner(piece)
        if call is None:
            call = _Call(len(self._calls), piece)
            self._calls.append(call)
            if piece.index is not None:
                self._by_index[piece.index] = call
            told_id = piece.id
        else:
            told_id = "" if call.id else piece.id
            call.id = call.id or piece.id
        if piece.id:
            self._by_id[piece.id] = call
        name = piece.name.removeprefix(call.name)  # repeated, or grown
        call.name += name
        call.add(piece.arguments)
        function = {"name": name or None, "arguments": piece.arguments}
        return {"index": call.number, "id": told_id or None, "function": function}

    def nameless(self) -> list[int]:
        """Return the numbers of the calls that have arguments, but no name."""
        return [call.number for call in self._calls if call.has_text and not call.name]

    def _owner(self, piece: CallPiece) -> _Call | None:
        """Return the call that a piece continues; None if it begins one."""
        if not self._calls:
            return None
        known = self._by_id.get(piece.id)
        indexed = None if piece.index is None else self._by_index.get(piece.index)
        if indexed is not None and known is not None and indexed.id == piece.id:
            known = indexed  # several calls have this id
        call = known or indexed or self._calls[-1]
        if piece.name:
            return call if _continues(call, piece) else None
        begins = bool(piece.id) and known is None and indexed is None and call.is_complete
        return None if begins else call


def _continues(call: _Call, piece: CallPiece) -> bool:
    """Return whether a piece with a name belongs to a call, and begins no other."""
    if not call.name:
        return True
    other_id = bool(piece.id and call.id and piece.id != call.id)
    other_index = piece.index is not None and call.index is not None and piece.index != call.index
    has_id = bool(call.id) and not other_id  # a new call of this server would have another one
    text = piece.arguments.strip()
    if not call.has_text:
        counts_pieces = other_index and has_id and bool(text) and piece.name == call.name
        return counts_pieces or not (other_id or other_index)  # a name may come in pieces, too
    if piece.name != call.name:
        return False
    if not call.is_complete:
        return not other_index or has_id or text[:1] not in ("", "{")
    if not text:
        return has_id and (not other_index or not piece.id)
    # In this order: its text may have many pieces, and so be long to join.
    return (has_id and not other_index) or (
        has_id == other_index and not other_id and call.text.strip() in (text, "{}")
    )
