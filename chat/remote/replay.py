"""Replays a turn from its journal: the one place that interprets the entries. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

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
from sessions_app.decoding import NO_JSON, decoder_of

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


class ReplayedTurn(msgspec.Struct, kw_only=True):
    """A turn, reconstructed from its journal entry by entry; unreadable ones are skipped.

    Attributes:
        started: Its first event.
        round: The note of its newest answer, or one without an id.
        pieces: The text of the newest answer that clients saw, as they got it.
        thoughts: The reasoning of the newest answer that clients saw, as they got it.
        calls: The tool calls that started and have no result, by their ids.
        asked: The ids of the calls for which an approval is pending.
        repeated: Those of them that have ended with questions, and are repeated with the answers.
        client_calls: The ids of the calls that were sent to the client to run.
        taken: The ids of the messages that it took, and that clients know of.
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
        starts: How often each call started, by its id.
        call_numbers: The numbers of calls that clients know, by their ids.
    """

    started: TurnStarted = TurnStarted(turn_id="", session_id="", model="")
    round: RoundBegan = RoundBegan(message_id="")
    pieces: list[str] = msgspec.field(default_factory=list)
    thoughts: list[str] = msgspec.field(default_factory=list)
    calls: dict[str, ToolCallStarted] = msgspec.field(default_factory=dict)
    asked: set[str] = msgspec.field(default_factory=set)
    repeated: set[str] = msgspec.field(default_factory=set)
    client_calls: set[str] = msgspec.field(default_factory=set)
    taken: set[str] = msgspec.field(default_factory=set)
    executed_calls: list[FinishedCall] = msgspec.field(default_factory=list)
    stopped: Stopped | None = None
    suspended: Suspended | None = None
    ending: MessageComplete | Cancelled | Failed | None = None
    has_ended: bool = False
    has_gone_on: bool = False
    last_number: int = 0
    job: JobNoted | None = None
    resumes: int = 0
    deaths: int = 0
    was_handed_over: bool = False
    barren_resumes: int = 0
    is_resuming: bool = False
    shows_answer: bool = False
    shows_calls: bool = False
    discarded: list[ShownAnswer] = msgspec.field(default_factory=list)
    starts: Counter[str] = msgspec.field(default_factory=Counter)
    call_numbers: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def turn_id(self) -> str:
        """The turn; empty without its first event."""
        return self.started.turn_id

    @property
    def question_id(self) -> str | None:
        """The user message that it answers; None if it goes on after tool calls."""
        return self.started.user_message_id or None

    @property
    def message_id(self) -> str | None:
        """The id of the newest answer, if any."""
        return self.round.message_id or None

    @property
    def replaced_id(self) -> str | None:
        """The first message of the answer that it replaces, if any."""
        return self.round.replaced_id or None

    @property
    def text(self) -> str:
        """The text of the newest answer that clients saw."""
        return _trimmed(self.pieces)

    @property
    def thinking(self) -> str:
        """The reasoning of the newest answer that clients saw."""
        return _trimmed(self.thoughts)

    @property
    def started_calls(self) -> Sequence[ToolCallStarted]:
        """The calls that started and have no result, without agents whose tools are asked about."""
        return [call for call in self.calls.values() if call.tool_call_id not in self.asked]

    @property
    def resumable_calls(self) -> Collection[str]:
        """The ids of started calls of agents whose tools wait for an approval."""
        return self.asked & self.calls.keys()

    def add(self, entry: Entry) -> None:
        """Add the next entry."""
        self.last_number = entry.n or self.last_number
        self.has_ended = entry.event == Done.event
        if entry.n:
            self.has_gone_on = entry.event == ToolContinuationStarted.event
            self.is_resuming = False
        event = _read(entry)
        self._add_answer(event)
        if isinstance(event, CallEvent):
            self._add_call(event)
        else:
            self._add_turn(event)
        if is_output(event):
            self.barren_resumes = 0

    def _add_answer(self, event: Event | Note | None) -> None:
        match event:
            case ContentDelta(content=text):
                self.pieces.append(text)
                self.shows_answer = True
            case ThinkingContentDelta(content=text):
                self.thoughts.append(text)
                self.shows_answer = True
            case ToolCallDelta():
                self.shows_answer = self.shows_calls = True
            case ContentReset():
                self.pieces.clear()
            case TurnStarted():
                self.started = event
            case TurnResumed(discarded=ids):
                if ids is not UNSET and self.round.message_id in ids:
                    self._discard()
            case RoundBegan():
                if event.message_id != self.round.message_id:  # else the answer goes on
                    self.clear()
                self.round = event

    def _add_turn(self, event: Event | Note | None) -> None:
        match event:
            case JobNoted():
                self.job = event
            case HandedOver():
                self.was_handed_over = True
            case Resumed(reason=reason):
                self.is_resuming, self.was_handed_over = True, False
                self.resumes += 1
                self.barren_resumes += reason == "process_died"
                self.deaths += reason == "process_died"
            case ClientToolCall(tool_call_id=call_id):
                self.client_calls.add(call_id)
            case MessageTaken(message_id=message_id):
                self.taken.add(message_id)
            case Stopped():
                self.stopped = event
            case Suspended():
                self.suspended = event
            case MessageComplete() | Cancelled() | Failed():
                self.ending = event

    def clear(self) -> None:
        """Forget what clients saw of the newest answer."""
        self.pieces.clear()
        self.thoughts.clear()
        self.shows_answer = self.shows_calls = False

    def _discard(self) -> None:
        if text := self.text:
            self.discarded.append(
                ShownAnswer(
                    message_id=self.round.message_id,
                    model=self.started.model,
                    text=text,
                    thinking=self.thinking,
                )
            )
        self.clear()

    def _add_call(self, event: CallEvent) -> None:
        if isinstance(event, ToolConfirmationRequired):
            if event.kind is UNSET or event.call_ended is True:  # else the call is running
                self.asked.add(event.tool_call_id)
            if event.call_ended is True:
                self.repeated.add(event.tool_call_id)
            self.call_numbers[event.tool_call_id] = event.call_index
            return
        self.asked.discard(event.tool_call_id)  # it was approved, or denied
        self.repeated.discard(event.tool_call_id)
        if isinstance(event, ToolCallStarted):
            self.calls[event.tool_call_id] = event
            self.starts[event.tool_call_id] += 1
            self.call_numbers[event.tool_call_id] = event.call_index
        elif isinstance(event, ToolResultReceived):
            call = self.calls.pop(event.tool_call_id, None)
            known = {} if event.arguments is UNSET else event.arguments
            self.executed_calls.append(FinishedCall.of(event, call.arguments if call else known))


def replay(entries: Iterable[Entry]) -> ReplayedTurn:
    """Return the turn whose journal has these entries."""
    turn = ReplayedTurn()
    for entry in entries:
        turn.add(entry)
    return turn


def is_sound(entry: Entry) -> bool:
    """Return whether the entry is valid; entries that no replay needs count as valid."""
    return entry.event not in _DECODERS or _read(entry) is not None


def _read(entry: Entry) -> Event | Note | None:
    """Return an entry's event or note; None if it is not needed or can't be read."""
    decoder = _DECODERS.get(entry.event)
    if decoder is None:
        return None
    try:
        return decoder.decode(entry.data)
    except NO_JSON:
        return None


def _trimmed(pieces: Sequence[str]) -> str:
    """Return a text as it is saved: only a last piece of nothing but white space is kept."""
    text = "".join(pieces).lstrip()
    return text if pieces and pieces[-1].isspace() else text.rstrip()
