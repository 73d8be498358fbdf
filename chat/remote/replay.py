"""Replays a turn from its journal: the one place that interprets the entries. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from chat.storage.journal import Entry
from chat.stream.agent_events import (
    AgentComplete,
    AgentExecution,
    AgentPlanning,
    AgentToolCall,
    AgentToolResult,
)
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
    MessageTaken,
    ThinkingContentDelta,
    ToolCallDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolContinuationStarted,
    ToolResultReceived,
    TurnResumed,
    TurnStarted,
)
from chat.stream.notes import HandedOver, JobNoted, Note, Resumed, RoundBegan, Stopped, Suspended
from sessions_app.decoding import NO_JSON, convert_to, decoder_of
from sessions_app.surrogates import join_surrogates, mend_json

_READ: tuple[type[Event | Note], ...] = (
    TurnStarted,
    TurnResumed,
    HandedOver,
    JobNoted,
    Resumed,
    RoundBegan,
    ContentDelta,
    ContentReset,
    ThinkingContentDelta,
    ToolCallDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolResultReceived,
    AgentToolCall,
    AgentToolResult,
    ClientToolCall,
    MessageTaken,
    MessageComplete,
    Cancelled,
    Failed,
    Stopped,
    Suspended,
)
CallEvent = (
    ToolCallStarted
    | ToolConfirmationRequired
    | ToolResultReceived
    | AgentToolCall
    | AgentToolResult
)
_KINDS = {kind.event: kind for kind in _READ}
_DECODERS = {kind.event: decoder_of(kind) for kind in _READ}


OUTPUT = (
    ContentDelta
    | ThinkingContentDelta
    | ToolCallDelta
    | ToolConfirmationRequired
    | ToolResultReceived
    | AgentPlanning
    | AgentExecution
    | AgentToolResult
    | AgentComplete
)


def is_output(event: object) -> bool:
    """Return whether an event shows that the turn came further: a delta, a question, a result."""
    return isinstance(event, OUTPUT)


class ShownAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Represents the text of an answer that clients saw, and that was not saved."""

    message_id: str
    model: str
    text: str
    thinking: str


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
        job: The latest note of its request, with which other processes can go on.
        resumes: How often it went on in another process.
        deaths: How many of these because its process had died.
        barren_resumes: How many of the deaths, the last ones, without any output since.
        was_handed_over: Whether its last process let go of it.
        is_resuming: Whether it is about to go on: noted so, and without an event since.
        shows_answer: Whether clients saw anything of the newest answer.
        shows_calls: Whether they saw pieces of a call of it.
        discarded: The answers that were begun again since, oldest first.
        taken: The ids of the messages that steered it.
        starts: How often each call started, by its id.
        call_numbers: The numbers of calls that clients know, by their ids.
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
    job: JobNoted | None = None
    resumes: int = 0
    deaths: int = 0
    was_handed_over: bool = False
    barren_resumes: int = 0
    is_resuming: bool = False
    shows_answer: bool = False
    shows_calls: bool = False
    discarded: Sequence[ShownAnswer] = ()
    taken: frozenset[str] = frozenset()
    starts: Mapping[str, int] = msgspec.field(default_factory=dict)
    call_numbers: Mapping[str, int] = msgspec.field(default_factory=dict)


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
        self._job: JobNoted | None = None
        self._resumes = 0
        self._deaths = 0
        self._was_handed_over = False
        self._barren_resumes = 0
        self._is_resuming = False
        self._shows_answer = False
        self._shows_calls = False
        self._discarded: list[ShownAnswer] = []
        self._starts = Counter[str]()
        self._taken = set[str]()
        self._numbers: dict[str, int] = {}

    def add(self, entry: Entry) -> None:
        """Add the next entry."""
        self._last_number = entry.n or self._last_number
        self._has_ended = entry.event == Done.event
        if entry.n:
            self._has_gone_on = entry.event == ToolContinuationStarted.event
            self._is_resuming = False
        event = _read(entry)
        self._add_answer(event)
        if isinstance(event, CallEvent):
            self._add_call(event)
        else:
            self._add_turn(event)
        if is_output(event):
            self._barren_resumes = 0

    def _add_answer(self, event: Event | Note | None) -> None:
        match event:
            case ContentDelta(content=text):
                self._text.append(text)
                self._shows_answer = True
            case ThinkingContentDelta(content=text):
                self._thinking.append(text)
                self._shows_answer = True
            case ToolCallDelta():
                self._shows_answer = self._shows_calls = True
            case ContentReset():
                self._text.clear()
            case TurnStarted():
                self._started = event
            case TurnResumed(discarded=ids):
                if ids is not UNSET and self._round.message_id in ids:
                    self._discard()
            case RoundBegan():
                if event.message_id != self._round.message_id:  # else the answer goes on
                    self._clear()
                self._round = event

    def _add_turn(self, event: Event | Note | None) -> None:
        match event:
            case JobNoted():
                self._job = event
            case HandedOver():
                self._was_handed_over = True
            case Resumed(reason=reason):
                self._is_resuming, self._was_handed_over = True, False
                self._resumes += 1
                self._barren_resumes += reason == "process_died"
                self._deaths += reason == "process_died"
            case MessageTaken(message_id=message_id):
                self._taken.add(message_id)
            case ClientToolCall(tool_call_id=call_id):
                self._client_calls.add(call_id)
            case Stopped():
                self._stopped = event
            case Suspended():
                self._suspended = event
            case MessageComplete() | Cancelled() | Failed():
                self._ending = event

    def _clear(self) -> None:
        self._text.clear()
        self._thinking.clear()
        self._shows_answer = self._shows_calls = False

    def _discard(self) -> None:
        if text := _trimmed(self._text):
            self._discarded.append(
                ShownAnswer(
                    message_id=self._round.message_id,
                    model=self._started.model,
                    text=text,
                    thinking=_trimmed(self._thinking),
                )
            )
        self._clear()

    def _add_call(self, event: CallEvent) -> None:
        if isinstance(event, ToolConfirmationRequired):
            self._asked.add(event.tool_call_id)
            self._numbers[event.tool_call_id] = event.call_index
            return
        self._asked.discard(event.tool_call_id)  # it was approved, or denied
        if isinstance(event, ToolCallStarted):
            self._calls[event.tool_call_id] = event
            self._starts[event.tool_call_id] += 1
            self._numbers[event.tool_call_id] = event.call_index
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
            job=self._job,
            resumes=self._resumes,
            deaths=self._deaths,
            was_handed_over=self._was_handed_over,
            barren_resumes=self._barren_resumes,
            is_resuming=self._is_resuming,
            shows_answer=self._shows_answer,
            shows_calls=self._shows_calls,
            discarded=tuple(self._discarded),
            starts=dict(self._starts),
            taken=frozenset(self._taken),
            call_numbers=dict(self._numbers),
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
