"""Replays a turn from its journal: the one place that interprets the entries. Pure."""

import json
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET

from chat.storage.journal import Entry
from chat.stream.agent_events import AgentToolCall, AgentToolResult
from chat.stream.events import (
    Cancelled,
    ClientToolCall,
    ContentDelta,
    ContentReset,
    Done,
    Event,
    Failed,
    FinishedCall,
    MessageComplete,
    ThinkingContentDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolContinuationStarted,
    ToolResultReceived,
    TurnStarted,
)
from chat.stream.notes import Note, RoundBegan, Stopped, Suspended
from sessions_app.decoding import NO_JSON, convert_to, decoder_of
from sessions_app.surrogates import join_surrogates, mend_json

_READ: tuple[type[Event | Note], ...] = (
    TurnStarted,
    RoundBegan,
    ContentDelta,
    ContentReset,
    ThinkingContentDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolResultReceived,
    AgentToolCall,
    AgentToolResult,
    ClientToolCall,
    MessageComplete,
    Cancelled,
    Failed,
    Stopped,
    Suspended,
)
_KINDS = {kind.event: kind for kind in _READ}
_DECODERS = {kind.event: decoder_of(kind) for kind in _READ}


class ReplayedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, reconstructed from its journal.

    Attributes:
        turn_id: The turn; empty without its first event.
        model: The session's model.
        first_message_id: The user message that it answers, or else its first answer.
        question_id: The user message that it answers; None if it goes on after tool calls.
        message_id: The id of the newest answer, if any.
        replaced_id: The first message of the answer that it replaces, if any.
        first_call_index: The number of the first call of that answer.
        client_calls: The ids of the calls that were sent to the client to run.
        text: The text of the newest answer that clients saw.
        thinking: The reasoning of the newest answer that clients saw.
        started_calls: The tool calls that started and have no result.
        resumable_calls: The ids of started calls of agents whose tools wait for an approval.
        waits_for_approval: Whether an approval is pending.
        executed_calls: Entries of ``tool_calls_executed``, in the order of the results.
        stopped: What was running when the turn was cancelled.
        suspended: The pending approvals of a suspended turn.
        ending: The event with which the turn ended, if it is there.
        has_ended: Whether the journal is complete: its last entry is ``done``.
        has_gone_on: Whether its newest event is ``tool_continuation_started``.
        last_number: The newest event's number; 0 without any event.
    """

    turn_id: str
    model: str
    first_message_id: str | None = None
    question_id: str | None = None
    message_id: str | None
    replaced_id: str | None
    first_call_index: int = 0
    client_calls: frozenset[str] = frozenset()
    text: str
    thinking: str
    started_calls: Sequence[ToolCallStarted]
    resumable_calls: frozenset[str] = frozenset()
    waits_for_approval: bool
    executed_calls: Sequence[FinishedCall]
    stopped: Stopped | None
    suspended: Suspended | None
    ending: MessageComplete | Cancelled | Failed | None
    has_ended: bool = False
    has_gone_on: bool = False
    last_number: int


class Replay:
    """Replays a journal entry by entry; skips unreadable ones."""

    def __init__(self) -> None:
        self._started = TurnStarted(turn_id="", session_id="", model="")
        self._round = RoundBegan(message_id="")
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[str, ToolCallStarted] = {}
        self._asked: set[str] = set()
        self._client_calls: set[str] = set()
        self._executed: list[FinishedCall] = []
        self._stopped: Stopped | None = None
        self._suspended: Suspended | None = None
        self._ending: MessageComplete | Cancelled | Failed | None = None
        self._has_ended = False
        self._has_gone_on = False
        self._last_number = 0

    def add(self, entry: Entry) -> None:
        """Add the next entry."""
        self._last_number = entry.n or self._last_number
        self._has_ended = entry.event == Done.event
        if entry.n:
            self._has_gone_on = entry.event == ToolContinuationStarted.event
        match _read(entry):
            case ContentDelta(content=text):
                self._text.append(text)
            case ThinkingContentDelta(content=text):
                self._thinking.append(text)
            case ContentReset():
                self._text.clear()
            case TurnStarted() as started:
                self._started = started
            case RoundBegan() as begun:
                self._round = begun
                self._text.clear()
                self._thinking.clear()
            case ClientToolCall(tool_call_id=call_id):
                self._client_calls.add(call_id)
            case Stopped() as stopped:
                self._stopped = stopped
            case Suspended() as suspended:
                self._suspended = suspended
            case (MessageComplete() | Cancelled() | Failed()) as ending:
                self._ending = ending
            case (
                ToolCallStarted()
                | ToolConfirmationRequired()
                | ToolResultReceived()
                | AgentToolCall()
                | AgentToolResult()
            ) as event:
                self._add_call(event)

    def _add_call(
        self,
        event: ToolCallStarted
        | ToolConfirmationRequired
        | ToolResultReceived
        | AgentToolCall
        | AgentToolResult,
    ) -> None:
        if isinstance(event, ToolConfirmationRequired):
            self._asked.add(event.tool_call_id)
            return
        self._asked.discard(event.tool_call_id)  # it was approved, or denied
        if isinstance(event, ToolCallStarted):
            self._calls[event.tool_call_id] = event
        elif isinstance(event, ToolResultReceived):
            call = self._calls.pop(event.tool_call_id, None)
            known = {} if event.arguments is UNSET else event.arguments
            self._executed.append(FinishedCall.of(event, call.arguments if call else known))

    def turn(self) -> ReplayedTurn:
        """Return the turn replayed so far."""
        replaced_id = self._round.replaced_id
        question_id = self._started.user_message_id
        return ReplayedTurn(
            turn_id=self._started.turn_id,
            model=self._started.model,
            first_message_id=self._started.first_message_id,
            question_id=None if question_id is UNSET else question_id,
            message_id=self._round.message_id or None,
            replaced_id=None if replaced_id is UNSET else replaced_id,
            first_call_index=self._round.first_call_index,
            client_calls=frozenset(self._client_calls),
            text=_trimmed(self._text),
            thinking=_trimmed(self._thinking),
            # An agent whose tool waits for an approval has started and can be resumed.
            started_calls=tuple(
                call for call in self._calls.values() if call.tool_call_id not in self._asked
            ),
            resumable_calls=frozenset(self._asked & self._calls.keys()),
            waits_for_approval=bool(self._asked),
            executed_calls=tuple(self._executed),
            stopped=self._stopped,
            suspended=self._suspended,
            ending=self._ending,
            has_ended=self._has_ended,
            has_gone_on=self._has_gone_on,
            last_number=self._last_number,
        )


def replay(entries: Iterable[Entry]) -> ReplayedTurn:
    """Return the turn whose journal has these entries."""
    replayed = Replay()
    for entry in entries:
        replayed.add(entry)
    return replayed.turn()


def is_sound(entry: Entry) -> bool:
    """Return whether the entry is valid; entries that no replay needs count as valid."""
    return entry.event not in _KINDS or _read(entry) is not None


def _read(entry: Entry) -> Event | Note | None:
    """Return an entry's event or note; None if it is not needed or can't be read."""
    decoder = _DECODERS.get(entry.event)
    if decoder is None:
        return None
    try:
        return decoder.decode(entry.data)
    except NO_JSON:
        pass
    try:  # halves of characters, which older servers wrote down
        return convert_to(_with_halves(entry.data), _KINDS[entry.event])
    except (ValueError, RecursionError):  # which msgspec's errors are
        return None


def _with_halves(data: msgspec.Raw) -> object:
    value = json.loads(bytes(data))
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        return value  # its other half may be in the next entry
    return mend_json(value)


def _trimmed(pieces: Sequence[str]) -> str:
    """Return a text as it is saved: only a last piece of nothing but white space is kept."""
    text = join_surrogates("".join(pieces)).lstrip()
    return text if pieces and pieces[-1].isspace() else text.rstrip()
