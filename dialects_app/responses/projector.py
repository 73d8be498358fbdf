"""Converts a turn's events to the events of a response. Pure (docs/decisions/0061)."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import UNSET

from chat.stream.agent_events import (
    AgentComplete,
    AgentExecution,
    AgentPlanning,
    AgentStarted,
    AgentToolCall,
    AgentToolResult,
)
from chat.stream.encoding import text_literal
from chat.stream.events import (
    Cancelled,
    ClientToolCall,
    ContentDelta,
    Done,
    Event,
    MessageComplete,
    ThinkingContentDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolContinuationStarted,
    ToolResultReceived,
    TurnResumed,
    TurnStarted,
)
from chat.stream.numbered_event import NumberedEvent
from dialects_app.responses.ending import IN_PROGRESS, QUEUED, ending_of
from dialects_app.responses.frames import Frames
from dialects_app.responses.output import Output
from dialects_app.responses.output_items import Item
from dialects_app.responses.record import NO_RECORD, ResponseRecord
from dialects_app.responses.resource import Resource, resource_of, seconds_of, usage_of
from dialects_app.shared.shown_calls import FAILED, agent_arguments, shown_call
from dialects_app.shared.turn_fold import TurnFold
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


class ResponseProjector(TurnFold):
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
        state: The end of the response, or that it is running.
    """

    def __init__(
        self,
        session_id: str,
        turn_id: str,
        record: ResponseRecord = NO_RECORD,
        *,
        after: int = -1,
        names_agents: bool = True,
    ) -> None:
        super().__init__(turn_id)
        self.state = QUEUED if record.background else IN_PROGRESS
        self._session_id = session_id
        self._record = record
        self._frames = Frames(after)
        self._output = Output(self._frames, session_id, seals=record.seals_reasoning)
        self._usage: dict[str, Any] | None = None
        self._saved_at: int | None = None
        self._shows_agents = record.shows_agents
        self._names_agents = names_agents

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        """Return the response's events for these events."""
        for event in events:
            name = event.name
            if name == "content_delta":
                self._output.say(self.message_id, text_literal(event.data))
            elif name == "thinking_delta":
                self._output.think(self.message_id, text_literal(event.data))
            else:
                self._feed_other(event)
        return self._frames.take()

    def replay(self, events: Iterable[Event]) -> None:
        """Convert the events that stand for saved messages, whose texts are kept as they are."""
        for event in events:
            if isinstance(event, ContentDelta | ThinkingContentDelta):
                is_reasoning = isinstance(event, ThinkingContentDelta)
                self._output.add_saved(self.message_id, event.content, is_reasoning=is_reasoning)
            else:
                self.take(event)

    def end_output(self) -> Sequence[Item]:
        """End the items that are open, and return all."""
        self._output.end("completed" if ending_of(self.ending).is_whole else "incomplete")
        return self._output.items

    def resource(self) -> Resource:
        """Return the current response."""
        return resource_of(
            self._record,
            session_id=self._session_id,
            turn_id=self.turn_id,
            model=self.model,
            ending=self.state,
            output=self._output.items,
            usage=self._usage,
            completed_at=self._saved_at,
        )

    def _feed_other(self, event: NumberedEvent) -> None:
        name = event.name
        if name == AgentComplete.event:
            self._tell_of_agent(event)
        self.follow(event)
        if name in _OF_AGENTS:
            self._tell_of_agent(event)

    # The turn

    def _on_turn_started(self, started: TurnStarted) -> None:
        super()._on_turn_started(started)
        self._frames.add("response.created", response=self.resource())
        if self._record.background:
            self._frames.add("response.queued", response=self.resource())
            self.state = IN_PROGRESS
        self._frames.add("response.in_progress", response=self.resource())

    def _on_tool_continuation_start(self, going_on: ToolContinuationStarted) -> None:
        self._output.end_texts()
        super()._on_tool_continuation_start(going_on)

    def _on_turn_resumed(self, resumed: TurnResumed) -> None:
        if resumed.keeps == "results":
            self._output.end_texts("incomplete")
        for message_id in resumed.discarded or ():
            self._output.discard(message_id)
        super()._on_turn_resumed(resumed)

    def _on_message_complete(self, complete: MessageComplete) -> None:
        super()._on_message_complete(complete)
        self._output.complete_text(complete.message_id, complete.content)

    def _on_cancelled(self, cancelled: Cancelled) -> None:
        super()._on_cancelled(cancelled)
        self._output.complete_text(cancelled.message_id, cancelled.content)

    def _on_done(self, done: Done) -> None:
        self.end_output()
        self.state = ending_of(self.ending)
        self._saved_at = None if done.saved_at is UNSET else seconds_of(done.saved_at)
        usage = self.usage_at(done)
        self._usage = None if usage is UNSET else usage_of(usage)
        self._frames.add(self.state.event, response=self.resource())

    # Calls

    def _on_tool_call(self, started: ToolCallStarted) -> None:
        if not self._output.runs(started.tool_call_id):  # else it runs again, after a death
            self._output.begin_call(self._call(started))

    def _on_client_tool_call(self, call: ClientToolCall) -> None:
        self._output.hand_over(self._call(call), self._record.forms.get(call.tool_name))

    def _on_tool_call_confirmation_required(self, question: ToolConfirmationRequired) -> None:
        self._output.ask(self._call(question), question.confirmation_id)

    def _on_tool_result(self, result: ToolResultReceived) -> None:
        call_id = result.tool_call_id
        if not self._output.runs(call_id):  # an approved or a denied call: it has no start event
            arguments = {} if result.arguments is UNSET else result.arguments
            call = ToolCall(id=call_id, name=result.tool_name, arguments=arguments)
            question = None if result.confirmation_id is UNSET else result.confirmation_id
            self._output.begin_call(self._named(call), question)
        text = (result.error_message or "") if result.result is None else result.result
        self._output.end_call(call_id, text, failed=not result.success)

    def _call(self, event: ToolCallStarted | ClientToolCall | ToolConfirmationRequired) -> ToolCall:
        inner = getattr(event, "inner_tool_call_id", UNSET)
        call_id = event.tool_call_id if inner is UNSET else inner
        return self._named(ToolCall(id=call_id, name=event.tool_name, arguments=event.arguments))

    def _named(self, call: ToolCall) -> ToolCall:
        return shown_call(call) if self._names_agents else call

    # Agents

    def _on_agent_start(self, started: AgentStarted) -> None:
        arguments = agent_arguments(started.instruction)
        call = ToolCall(id=started.tool_call_id, name=started.agent_name, arguments=arguments)
        if not self._output.runs(call.id):
            self._output.begin_call(call)

    def _on_agent_complete(self, complete: AgentComplete) -> None:
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
