"""Finds the call that each piece of a streamed tool call belongs to. Pure.

OpenAI numbers its calls, and gives id and name with the first piece of each. Servers that copy its
API also leave out numbers, count pieces instead of calls, repeat names, or give each piece an id of
its own.
"""

from typing import Any

import msgspec

from models_app.vendors.shown_arguments import ShownArguments


class CallPiece(msgspec.Struct, frozen=True):
    """A piece of a call; what it does not say is None, or empty."""

    index: float | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""


class _Call(msgspec.Struct, eq=False):
    """A call of which some pieces have come."""

    number: int
    index: float | None
    id: str = ""
    name: str = ""
    pieces: list[str] = []
    arguments: ShownArguments = msgspec.field(default_factory=ShownArguments)


class CallPieces:
    """Numbers the calls of one answer in the order in which they begin."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[float | None, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def place(self, piece: CallPiece) -> dict[str, Any]:
        """Return a piece as OpenAI sends it: numbered, and with what is new in its id and name."""
        call = self._owner(piece)
        if call is None:
            call = _Call(len(self._calls), piece.index)
            self._calls.append(call)
            if piece.index is not None:
                self._by_index[piece.index] = call
        told_id = "" if call.id else piece.id
        call.id = call.id or piece.id
        if piece.id:
            self._by_id[piece.id] = call
        name = piece.name.removeprefix(call.name)  # repeated, or grown
        call.name += name
        if call.pieces or piece.arguments.strip():
            call.pieces.append(piece.arguments)
            call.arguments.feed(piece.arguments)
        function = {"name": name or None, "arguments": piece.arguments}
        return {"index": call.number, "id": told_id or None, "function": function}

    def nameless(self) -> list[int]:
        """Return the numbers of the calls that have arguments, but no name."""
        return [call.number for call in self._calls if call.pieces and not call.name]

    def _owner(self, piece: CallPiece) -> _Call | None:
        """Return the call that a piece continues; None if it begins one."""
        if not self._calls:
            return None
        known, indexed = self._by_id.get(piece.id), self._by_index.get(piece.index)
        if indexed is not None and indexed.id == piece.id:  # so may others
            known = indexed
        call = known or indexed or self._calls[-1]
        if piece.name:
            begins = not _continues(call, piece)
        else:
            begins = bool(piece.id) and not (known or indexed) and call.arguments.are_whole
        return None if begins else call


def _continues(call: _Call, piece: CallPiece) -> bool:
    """Return whether a piece with a name belongs to a call, and begins no other."""
    if not call.name:
        return True
    other_id = bool(piece.id and call.id and piece.id != call.id)
    other_index = piece.index is not None and call.index is not None and piece.index != call.index
    if not call.pieces:
        return not (other_id or other_index)  # a name may come in pieces, too
    if piece.name != call.name:
        return False
    has_id = bool(call.id) and not other_id  # a new call of this server would have another one
    if not call.arguments.are_whole:
        return not other_index or has_id
    if has_id and not other_index:
        return True
    text = piece.arguments.strip()
    # In this order: its text may have many pieces, and so be long to join.
    return (
        bool(text) and has_id == other_index and not other_id
        and "".join(call.pieces).strip() in (text, "{}")
    )  # fmt: skip
