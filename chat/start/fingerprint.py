"""Computes fingerprints of chat requests, for idempotency keys. Pure.

Generated values (ids, times) are not part of a fingerprint. Requests that earlier versions accepted
keep their fingerprints, because stored keys have them.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from chat.start.turn_request import TurnRequest
from chat.storage.idempotency_keys import fingerprint_of

_MADE_FOR_IT = frozenset(
    {"message_id", "timestamp", "session_id", "created_at", "updated_at", "forked_from"}
)


class _FirstTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of turns in the first version, in their order."""

    message: Any
    think: Any
    selected_tools: Any
    detached: bool
    interactive: bool = True


class _FirstRequest(msgspec.Struct, frozen=True, kw_only=True):
    turn: _FirstTurn
    session_id: str | None
    model: str | None


def fingerprint_of_request(
    turn: TurnRequest, *, session_id: str | None, model: str | None, **others: Any
) -> str:
    """Return a hash of a request.

    Args:
        turn: The requested turn. The approval modes ``wait`` and ``suspend`` are not distinguished.
        session_id: The named session.
        model: The named model.
        others: Everything else that distinguishes requests; false values do not count.
    """
    first = _FirstRequest(
        turn=_FirstTurn(
            message=turn.message,
            think=turn.think,
            selected_tools=turn.selected_tools,
            detached=turn.detached,
        ),
        session_id=session_id,
        model=model,
    )
    if turn.approvals == "suspend":
        turn = msgspec.structs.replace(turn, approvals="wait")
    default, asked = TurnRequest(), {}
    for name in turn.__struct_fields__:
        value = getattr(turn, name)
        if name not in _FirstTurn.__struct_fields__ and value != getattr(default, name):
            asked[name] = value
    if turn.rewind is not None:  # the client names it: it was not made for the request
        asked["rewind_to"] = turn.rewind.message_id
    asked |= {name: value for name, value in others.items() if value}
    return fingerprint_of(first, _said(asked)) if asked else fingerprint_of(first)


def _said(value: Any) -> Any:
    """Return a JSON-compatible value without generated fields."""
    if isinstance(value, msgspec.Struct):
        value = {"role": getattr(value, "role", None), **msgspec.structs.asdict(value)}
    if isinstance(value, Mapping):
        said = {name: item for name, item in value.items() if item is not msgspec.UNSET}
        return {name: _said(item) for name, item in said.items() if name not in _MADE_FOR_IT}
    if isinstance(value, list | tuple):
        return [_said(item) for item in value]
    return value
