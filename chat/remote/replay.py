"""Reads what a journal says of its turn, passing over what it can't read. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from chat.storage.journal import Entry
from chat.turn.completion import ToolCallRecord
from sessions_app.surrogates import join_surrogates, mend_json


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal tells of a turn.

    Attributes:
        turn_id: The turn; empty when no client saw anything.
        message_id: The id of the answer that was being made, if any.
        replaced_id: The first message of the answer that it replaces, if any.
        text: The text of it that clients saw.
        thinking: The reasoning of it that clients saw.
        model: The session's model.
        started_calls: The tool calls that started and have no result.
        waits_for_approval: Whether a person was asked about a call and has not answered.
        executed_calls: Entries of ``tool_calls_executed``, in the order of the results.
        last_number: The newest event's number; 0 when no client saw anything.
        last_event: That event's name.
    """

    turn_id: str
    message_id: str | None
    replaced_id: str | None = None
    text: str
    thinking: str
    model: str
    started_calls: Sequence["StartedCall"]
    waits_for_approval: bool
    executed_calls: Sequence[ToolCallRecord]
    last_number: int
    last_event: str


# --- What is read of the entries; whatever else they hold is passed over -------------------------


class _Piece(msgspec.Struct):
    content: str


class _Round(msgspec.Struct):
    message_id: str
    replaced_id: str | None = None


class _Started(msgspec.Struct):
    turn_id: str
    model: str


class StartedCall(msgspec.Struct, frozen=True):
    """A tool call as its event tells it."""

    tool_call_id: str
    tool_name: str
    call_index: int
    arguments: dict[str, Any] = {}


class _AboutCall(msgspec.Struct):
    tool_call_id: str


class _Result(msgspec.Struct):
    tool_call_id: str
    tool_name: str
    call_index: int
    success: bool
    result: str | None
    error_message: str | None
    execution_time_ms: float


class _Complete(msgspec.Struct):
    message_id: str
    content: str


class _Failed(msgspec.Struct):
    code: str
    message: str
    details: dict[str, Any]


class _Suspended(msgspec.Struct):
    message_id: str | None
    confirmations: list[dict[str, Any]]
    tool_calls: list[dict[str, Any]]


_SHAPES: Mapping[str, type] = {
    "content_delta": _Piece,
    "thinking_delta": _Piece,
    "round": _Round,
    "turn_started": _Started,
    "tool_call": StartedCall,
    "agent_tool_call": _AboutCall,
    "agent_tool_result": _AboutCall,
    "tool_call_confirmation_required": _AboutCall,
    "tool_result": _Result,
    "message_complete": _Complete,
    "cancelled": _Complete,
    "error": _Failed,
    "suspended": _Suspended,
}
_DECODERS: Mapping[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(shape) for name, shape in _SHAPES.items()
}


def is_sound(entry: Entry) -> bool:
    """Whether the entry can be read; one of an event that nobody here knows is passed over."""
    return entry.event not in _SHAPES or _read(entry) is not None


def _read(entry: Entry) -> Any:
    """Return what an entry of a known event tells; None where it does not say that."""
    try:
        return _DECODERS[entry.event].decode(entry.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:  # halves of characters, which older servers wrote down
        return msgspec.convert(_with_halves(entry.data), _SHAPES[entry.event])
    except (ValueError, RecursionError):  # which msgspec's errors are
        return None


def _with_halves(data: msgspec.Raw) -> Any:
    value = json.loads(bytes(data))
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        return value  # its other half may be in the next entry
    return mend_json(value)


class _Gathering:
    """Gathers what a journal tells, entry by entry."""

    def __init__(self) -> None:
        self.round = _Round(message_id="")
        self.started = _Started(turn_id="", model="")
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.calls: dict[str, StartedCall] = {}
        self.asked: set[str] = set()
        self.executed: list[ToolCallRecord] = []

    def add(self, event: str, told: Any) -> None:
        if isinstance(told, _Piece):
            (self.text if event == "content_delta" else self.thinking).append(told.content)
        elif isinstance(told, _Round):
            self.round = told
            self.text.clear()
            self.thinking.clear()
        elif isinstance(told, _Started):
            self.started = told
        elif isinstance(told, StartedCall):
            self.calls[told.tool_call_id] = told
            self.asked.discard(told.tool_call_id)
        elif event == "tool_call_confirmation_required":
            self.asked.add(told.tool_call_id)
        elif isinstance(told, _AboutCall):  # approved; denied
            self.asked.discard(told.tool_call_id)
        elif isinstance(told, _Result):
            call = self.calls.pop(told.tool_call_id, None)
            self.asked.discard(told.tool_call_id)
            self.executed.append(_record(call, told))


def read_remains(entries: Iterable[Entry]) -> Remains:
    """Gather what a journal tells; entries that can't be read are passed over."""
    found = _Gathering()
    last_number, last_event = 0, ""
    for entry in entries:
        told = _read(entry) if entry.event in _SHAPES else None
        if entry.n:
            last_number, last_event = entry.n, entry.event
        if told is not None:
            found.add(entry.event, told)
    return Remains(
        turn_id=found.started.turn_id,
        message_id=found.round.message_id or None,
        replaced_id=found.round.replaced_id,
        text=join_surrogates("".join(found.text)).strip(),
        thinking=join_surrogates("".join(found.thinking)).strip(),
        model=found.started.model,
        # An agent whose tool waits for an approval has started and can be resumed.
        started_calls=tuple(
            call for call in found.calls.values() if call.tool_call_id not in found.asked
        ),
        waits_for_approval=bool(found.asked),
        executed_calls=tuple(found.executed),
        last_number=last_number,
        last_event=last_event,
    )


def _record(call: StartedCall | None, result: _Result) -> ToolCallRecord:
    """Put together what call and result tell; the result does not repeat the arguments."""
    return ToolCallRecord(
        tool_name=result.tool_name,
        tool_call_id=result.tool_call_id,
        call_index=result.call_index,
        arguments=call.arguments if call is not None else {},
        success=result.success,
        result=result.result,
        error_message=result.error_message,
        execution_time_ms=result.execution_time_ms,
    )
