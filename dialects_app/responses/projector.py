"""Converts a turn's events to the events of a response. Pure (docs/decisions/0061)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from chat.http.sse import HEARTBEAT
from chat.stream.encoding import text_literal
from chat.stream.events import (
    AgentComplete,
    AgentExecution,
    AgentPlanning,
    AgentStarted,
    AgentToolCall,
    AgentToolResult,
    Cancelled,
    ClientToolCall,
    ContentDelta,
    Done,
    Event,
    Failed,
    MessageComplete,
    ThinkingContentDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolContinuationStarted,
    ToolResultReceived,
    TurnStarted,
)
from chat.stream.numbered_event import NumberedEvent
from chat.turn.usage import cost_of
from dialects_app.responses.ending import (
    CANCELLED,
    COMPLETED,
    IN_PROGRESS,
    QUEUED,
    Ending,
    ending_of_answer,
    ending_of_error,
)
from dialects_app.responses.frames import Frames, encoded
from dialects_app.responses.output import Output
from dialects_app.responses.output_items import FAILED, Item, agent_call, shown_call
from dialects_app.responses.record import NO_RECORD, ResponseRecord, ResumedCall
from dialects_app.responses.resource import Resource, resource_of, seconds_of, usage_of
from sessions_app.decoding import decode_as
from sessions_app.messages import ToolCall

_OF_AGENTS = frozenset(
    {
        AgentStarted.event,
        AgentPlanning.event,
        AgentExecution.event,
        AgentToolCall.event,
        AgentToolResult.event,
    }
)


class ResponseProjector:
    """Converts the events of a turn to those of a response; implements ``Projector``.

    The first event makes ``response.created``, the last one the final lifecycle event. The output
    and its numbers depend on the events and the record only.

    Args:
        session_id: The session.
        turn_id: The turn.
        record: The parameters of its request.
        after: The number of this client's last event.
        names_agents: Whether a call of an agent has the agent's name, not that of the tool.

    Attributes:
        opening: Sent before the first events: empty.
        heartbeat: Sent during silence.
        ending: The end of the response, or that it is running.
        has_begun: Whether any event was converted.
    """

    opening = b""
    heartbeat = HEARTBEAT
    has_ended = False

    def __init__(
        self,
        session_id: str,
        turn_id: str,
        record: ResponseRecord = NO_RECORD,
        *,
        after: int = -1,
        names_agents: bool = True,
    ) -> None:
        self.ending: Ending = QUEUED if record.background else IN_PROGRESS
        self.has_begun = False
        self._session_id = session_id
        self._turn_id = turn_id
        self._record = record
        self._frames = Frames(after)
        self._output = Output(self._frames, session_id)
        self._model = ""
        self._message_id = ""
        self._round = 0
        self._resumed = dict(record.resumed)
        self._usage: dict[str, Any] | None = None
        self._saved_at: str | None = None
        self._last: Ending = COMPLETED
        self._shows_agents = record.shows_agents
        self._names_agents = names_agents

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        """Return the response's events for these events."""
        for event in events:
            name = event.name
            if name == "content_delta":
                self._output.say(self._message_id, text_literal(event.data))
            elif name == "thinking_delta":
                self._output.think(self._message_id, text_literal(event.data))
            else:
                self._feed_other(event)
        return self._frames.take()

    def replay(self, events: Iterable[Event]) -> None:
        """Convert the events that stand for saved messages, whose texts are kept as they are."""
        for event in events:
            if isinstance(event, ContentDelta | ThinkingContentDelta):
                is_reasoning = isinstance(event, ThinkingContentDelta)
                self._output.add_saved(self._message_id, event.content, is_reasoning=is_reasoning)
            else:
                self._SHOW[event.event](self, event)

    def end_output(self) -> Sequence[Item]:
        """End the items that are open, and return all."""
        self._output.end("completed" if self._last.is_whole else "incomplete")
        return self._output.items

    def resource(self) -> Resource:
        """Return the current response."""
        return resource_of(
            self._record,
            session_id=self._session_id,
            turn_id=self._turn_id,
            model=self._model,
            ending=self.ending,
            output=self._output.items,
            usage=self._usage,
            completed_at=seconds_of(self._saved_at),
        )

    def _feed_other(self, event: NumberedEvent) -> None:
        name = event.name
        if name == AgentComplete.event:
            self._tell_of_agent(event)
        show = self._SHOW.get(name)
        if show is not None:
            show(self, event.decode())
        if name in _OF_AGENTS:
            self._tell_of_agent(event)

    # The turn

    def _begin(self, started: TurnStarted) -> None:
        self._model = started.model
        self._name_answer(started.message_id)
        self.has_begun = True
        response = encoded(self.resource())
        self._frames.add("response.created", response=response)
        if self._record.background:
            self._frames.add("response.queued", response=response)
            self.ending = IN_PROGRESS
            response = encoded(self.resource())
        self._frames.add("response.in_progress", response=response)

    def _go_on(self, going_on: ToolContinuationStarted) -> None:
        self._output.end_texts()
        self._round += 1
        self._name_answer(going_on.message_id)

    def _name_answer(self, message_id: str | UnsetType) -> None:
        """Remember the id of the next answer, which is missing in journals of older servers."""
        made_up = f"{self._turn_id}{self._round}"
        self._message_id = made_up if message_id is UNSET else message_id

    def _complete(self, complete: MessageComplete) -> None:
        self._last = ending_of_answer(complete.done_reason)
        self._output.complete_text(complete.message_id, complete.content)
        self._count(complete)

    def _cancel(self, cancelled: Cancelled) -> None:
        self._last = CANCELLED
        self._output.complete_text(cancelled.message_id, cancelled.content)
        self._count(cancelled)

    def _fail(self, failed: Failed) -> None:
        self._last = ending_of_error(failed.code or None, failed.message)
        self._count(failed)

    def _end(self, done: Done) -> None:
        self.end_output()
        self.ending = self._last
        self._saved_at = None if done.saved_at is UNSET else done.saved_at
        self._count(done)
        self._frames.add(self.ending.event, response=self.resource())

    def _count(self, event: MessageComplete | Cancelled | Failed | Done) -> None:
        usage = event.turn_usage
        if usage is not UNSET:
            self._usage = usage_of(
                usage.input_tokens,
                usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                reasoning_tokens=usage.reasoning_tokens,
                cost=cost_of(usage),
            )

    # Calls

    def _start_call(self, started: ToolCallStarted) -> None:
        self._resumed.pop(started.tool_call_id, None)
        self._output.begin_call(self._call(started))

    def _hand_over(self, asked: ClientToolCall) -> None:
        self._output.hand_over(self._call(asked))

    def _ask(self, asked: ToolConfirmationRequired) -> None:
        call = self._call(asked)
        if asked.agent_name is UNSET:
            self._resumed[call.id] = ResumedCall(
                name=call.name, arguments=call.arguments, confirmation_id=asked.confirmation_id
            )
        self._output.ask(call, asked.confirmation_id)

    def _end_call(self, result: ToolResultReceived) -> None:
        call_id = result.tool_call_id
        if not self._output.runs(call_id):
            self._begin_silent_call(result)
        text = (result.error_message or "") if result.result is None else result.result
        self._output.end_call(call_id, text, failed=not result.success)

    def _begin_silent_call(self, result: ToolResultReceived) -> None:
        """Send the start of a call without a start event: an approved or a denied one.

        Journals of older servers lack its arguments and its approval.
        """
        known = self._resumed.pop(result.tool_call_id, None)
        known = known or ResumedCall(name=result.tool_name, arguments={})
        arguments, asked = result.arguments, result.confirmation_id
        call = ToolCall(
            id=result.tool_call_id,
            name=result.tool_name,
            arguments=known.arguments if arguments is UNSET else arguments,
        )
        asked_in = known.confirmation_id if asked is UNSET else asked
        self._output.begin_call(self._shown(call), asked_in)

    def _call(self, event: ToolCallStarted | ClientToolCall | ToolConfirmationRequired) -> ToolCall:
        inner = getattr(event, "inner_tool_call_id", UNSET)
        call_id = event.tool_call_id if inner is UNSET else inner
        return self._shown(ToolCall(id=call_id, name=event.tool_name, arguments=event.arguments))

    def _shown(self, call: ToolCall) -> ToolCall:
        return shown_call(call) if self._names_agents else call

    # Agents

    def _start_agent(self, started: AgentStarted) -> None:
        known = self._resumed.pop(started.tool_call_id, None)
        self._output.begin_call(
            agent_call(started.tool_call_id, started.agent_name, started.instruction),
            None if known is None else known.confirmation_id,
        )

    def _end_agent(self, complete: AgentComplete) -> None:
        if self._output.runs(complete.tool_call_id):
            self._output.end_call(
                complete.tool_call_id,
                complete.output,
                failed=complete.output.startswith(FAILED),
            )

    def _tell_of_agent(self, event: NumberedEvent) -> None:
        """Send an agent's event if requested: the npm helper rejects unknown types."""
        if not self._shows_agents:
            return
        fields = decode_as(event.data, dict[str, Any])
        place = self._output.place_of(fields["tool_call_id"]) or {}
        kind = event.name.removeprefix("agent_")
        self._frames.add(f"mochi.agent.{kind}", **place, **fields)

    _SHOW: ClassVar[Mapping[str, Callable[..., None]]] = {
        TurnStarted.event: _begin,
        ToolCallStarted.event: _start_call,
        ClientToolCall.event: _hand_over,
        ToolConfirmationRequired.event: _ask,
        ToolResultReceived.event: _end_call,
        AgentStarted.event: _start_agent,
        AgentComplete.event: _end_agent,
        ToolContinuationStarted.event: _go_on,
        MessageComplete.event: _complete,
        Cancelled.event: _cancel,
        Failed.event: _fail,
        Done.event: _end,
    }
