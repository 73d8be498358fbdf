"""Converts a turn's events to AG-UI events (a ``Projector``). Pure (docs/decisions/0082)."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

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
    ContentReset,
    Done,
    Failed,
    MessageComplete,
    MessageTaken,
    StatusChanged,
    ToolCallDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolContinuationStarted,
    ToolResultReceived,
    TurnResumed,
    TurnStarted,
)
from chat.stream.numbered_event import NumberedEvent
from dialects_app.ag_ui.calls import ResumedCalls, ShownCalls, result_metadata
from dialects_app.ag_ui.frames import Frames
from dialects_app.ag_ui.interrupts import interrupt_of
from dialects_app.ag_ui.subagents import Subagent
from dialects_app.ag_ui.text_events import TextEvents
from dialects_app.shared.shown_calls import FAILED, agent_arguments, result_text, shown_call
from dialects_app.shared.turn_fold import TurnFold
from sessions_app.messages import ToolCall, Usage
from tools_app.toolset import AGENT_TOOL

PROTOCOL_VERSION = "1.0"
"""The version of AG-UI that is spoken; in no release another one without a word in the changes."""


class RunProjector(TurnFold):
    """Converts the events of a turn to those of a run.

    The first event makes ``RUN_STARTED``, and ``done`` makes ``RUN_FINISHED`` or ``RUN_ERROR``,
    after everything open was closed. The output depends on the events and the arguments only.

    Args:
        thread_id: The client's name of the session.
        run_id: The client's id of the turn; None for other clients, which get the turn's id.
        resumed: Calls of an earlier turn that this turn runs.
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str | None = None,
        *,
        resumed: ResumedCalls | None = None,
    ) -> None:
        super().__init__()
        self._thread_id = thread_id
        self._run_id = run_id
        self._frames = Frames()
        self._texts = TextEvents(self._frames)
        self._calls = ShownCalls(self._frames, resumed)
        self._left_to_client: list[str] = []
        self._interrupts: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, str] = {}
        self._agents: dict[str, Subagent] = {}
        self._agent_runs: dict[str, int] = {}

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        """Return the run's events for these events. The hot path."""
        for event in events:
            name = event.name
            if name == "content_delta":
                self._texts.say(text_literal(event.data))
            elif name == "thinking_delta":
                self._texts.think(text_literal(event.data))
            elif name == StatusChanged.event:
                self._frames.add_encoded(f"{_STATUS}{event.data}}}\n\n")
            else:
                self.follow(event)
        return self._frames.take()

    # The run

    def _on_turn_started(self, started: TurnStarted) -> None:
        self._run_id = self._run_id or started.turn_id
        about = {
            "sessionId": started.session_id,
            "turnId": started.turn_id,
            "model": started.model,
        }
        self._frames.add(
            "RUN_STARTED",
            threadId=self._thread_id,
            runId=self._run_id,
            protocolVersion=PROTOCOL_VERSION,
            metadata=about,
        )
        super()._on_turn_started(started)
        self._texts.begin_answer(self.message_id)

    def _on_tool_continuation_start(self, going_on: ToolContinuationStarted) -> None:
        super()._on_tool_continuation_start(going_on)
        self._calls.begin_round()
        self._texts.begin_answer(self.message_id)

    def _on_turn_resumed(self, resumed: TurnResumed) -> None:
        super()._on_turn_resumed(resumed)
        if resumed.keeps == "results":
            self._texts.begin_answer(self.message_id)
        for agent in self._agents.values():  # their calls run again
            agent.suspend()
        self._agents.clear()
        if resumed.discarded:
            self._calls.discard()
            self._discard()
        value = msgspec.to_builtins(resumed)
        self._frames.add("CUSTOM", name="mochi.turn_resumed", value=value)

    def _discard(self) -> None:
        """Send what is there without the discarded answer, if that can be known."""

    def _on_message_taken(self, taken: MessageTaken) -> None:
        self._texts.say_for_user(taken.message_id, taken.content)

    def _on_content_reset(self, _: ContentReset) -> None:
        self._texts.end()  # a text can't be taken back here; the next one stands apart

    def _on_done(self, done: Done) -> None:
        ending = self.ending
        if isinstance(ending, MessageComplete | Cancelled):
            self._texts.require(ending.message_id)
        self._texts.end()
        self._calls.end()
        for agent in self._agents.values():
            if ending is None:
                agent.suspend()
            else:
                message, code = _why_stopped(ending)
                agent.fail(message, code)
        self._agents.clear()
        used = self.usage_at(done)
        usage, about = usage_of(used, self.model), _about(ending, used)
        if isinstance(ending, Failed):
            self._frames.add(
                "RUN_ERROR", message=ending.message, code=ending.code, usage=usage, metadata=about
            )
            return
        self._frames.add(
            "RUN_FINISHED",
            threadId=self._thread_id,
            runId=self._run_id or "",
            outcome=self._outcome(),
            usage=usage,
            metadata=about,
        )

    def _outcome(self) -> Mapping[str, Any]:
        if isinstance(self.ending, Cancelled):
            return {"type": "cancelled"}
        if self.ending is None and self._interrupts:
            return {"type": "interrupt", "interrupts": list(self._interrupts.values())}
        if self._left_to_client:
            return {"type": "success", "pendingToolCallIds": self._left_to_client}
        return {"type": "success"}

    # Calls

    def _show_call(self, call_id: str, name: str, arguments: Mapping[str, Any] | None) -> str:
        """Send a call unless the client has it; return the id of the message with the call."""
        self._texts.end()
        parent = self._calls.show(call_id, name, arguments, parent_id=self._texts.message_id)
        self._texts.note(parent)
        return parent

    def _on_tool_call_delta(self, delta: ToolCallDelta) -> None:
        """Send a piece of a call's arguments; calls of agents are renamed and sent whole.

        An open text stays open, because the model may continue it after the call.
        """
        call_id, name = delta.tool_call_id, delta.tool_name
        if name is not UNSET and name != AGENT_TOOL:
            parent = self._calls.begin(call_id, name, parent_id=self._texts.message_id)
            self._texts.note(parent)
        self._calls.add_arguments(call_id, delta.arguments)

    def _on_tool_call(self, call: ToolCallStarted) -> None:
        self._show_call(call.tool_call_id, call.tool_name, call.arguments)

    def _on_client_tool_call(self, call: ClientToolCall) -> None:
        self._show_call(call.tool_call_id, call.tool_name, call.arguments)
        self._left_to_client.append(call.tool_call_id)

    def _on_tool_call_confirmation_required(self, question: ToolConfirmationRequired) -> None:
        agent = None if question.agent_name is UNSET else self._agents.get(question.tool_call_id)
        if agent is not None:
            interrupt = agent.ask(question)
        else:
            call_id = question.tool_call_id
            self._show_call(call_id, question.tool_name, question.arguments)
            self._asked[call_id] = question.confirmation_id
            interrupt = interrupt_of(question, tool_call_id=call_id)
        if question.confirmation_id in self._interrupts:  # it is asked again after a death
            return
        self._interrupts[question.confirmation_id] = interrupt
        self._frames.add("CUSTOM", name="interrupt", value=interrupt)

    def _on_tool_result(self, result: ToolResultReceived) -> None:
        call_id = result.tool_call_id
        if result.arguments is UNSET:
            self._show_call(call_id, result.tool_name, None)
        else:
            call = ToolCall(id=call_id, name=result.tool_name, arguments=result.arguments)
            shown = shown_call(call)
            self._show_call(call_id, shown.name, shown.arguments)
        self._calls.show_result(call_id, result_text(result), result_metadata(result))
        self._interrupts.pop(self._asked.pop(call_id, ""), None)

    # Agents

    def _on_agent_start(self, started: AgentStarted) -> None:
        call_id = started.tool_call_id
        arguments = agent_arguments(started.instruction)
        parent = self._show_call(call_id, started.agent_name, arguments)
        count = self._agent_runs[call_id] = self._agent_runs.get(call_id, 0) + 1
        self._agents[call_id] = Subagent(
            self._frames,
            call_id if count == 1 else f"{call_id}-{count}",
            call_id=call_id,
            name=started.agent_name,
            parent_id=parent,
        )

    def _of_agent(self, event: AgentPlanning | AgentExecution | AgentToolCall) -> Subagent:
        """Return the agent of an event."""
        if event.tool_call_id not in self._agents:  # the beginning is not in the journal
            self._on_agent_start(
                AgentStarted(
                    agent_name=event.agent_name,
                    call_index=event.call_index,
                    tool_call_id=event.tool_call_id,
                    instruction="",
                )
            )
        return self._agents[event.tool_call_id]

    def _on_agent_planning(self, planning: AgentPlanning) -> None:
        self._of_agent(planning).say("planning", planning.content)

    def _on_agent_execution(self, execution: AgentExecution) -> None:
        self._of_agent(execution).say("execution", execution.content)

    def _on_agent_tool_call(self, call: AgentToolCall) -> None:
        self._of_agent(call).call(call)

    def _on_agent_tool_result(self, result: AgentToolResult) -> None:
        agent = self._agents.get(result.tool_call_id)
        if agent is not None:
            self._interrupts.pop(agent.result(result) or "", None)

    def _on_agent_complete(self, complete: AgentComplete) -> None:
        call_id = complete.tool_call_id
        agent = self._agents.pop(call_id, None)
        failed = complete.output.startswith(FAILED)
        if agent is not None and failed:
            agent.fail(complete.output.removeprefix(FAILED))
        elif agent is not None:
            agent.finish()
        about = {"success": not failed, "agentSessionId": complete.session_id}
        self._show_call(call_id, complete.agent_name, None)
        self._calls.show_result(call_id, complete.output, about)


_STATUS = 'data: {"type":"CUSTOM","name":"status","value":'


def usage_of(used: Usage | UnsetType, model: str) -> Sequence[Mapping[str, Any]] | None:
    """Return the usage of a turn; None if unknown."""
    if used is UNSET:
        return None
    counts: dict[str, int | None] = {
        "inputTokens": used.input_tokens,
        "outputTokens": used.output_tokens,
        "reasoningTokens": used.reasoning_tokens,
        "cachedInputTokens": used.cached_tokens,
    }
    if used.input_tokens is not None and used.output_tokens is not None:
        counts["totalTokens"] = used.input_tokens + used.output_tokens
    known = {name: count for name, count in counts.items() if count is not None}
    return [{"model": model, **known}] if known else None


def _about(
    ending: MessageComplete | Cancelled | Failed | None, used: Usage | UnsetType
) -> Mapping[str, Any] | None:
    """Return what the protocol has no fields for, such as the cost; None for nothing."""
    about: dict[str, Any] = {}
    if isinstance(ending, MessageComplete | Cancelled):
        about["messageId"] = ending.message_id
    if isinstance(ending, MessageComplete) and ending.done_reason is not None:
        about["doneReason"] = ending.done_reason
    if used is not UNSET and used.cost_usd is not None:
        about["costUsd"] = used.cost_usd
    return about or None


def _why_stopped(ending: MessageComplete | Cancelled | Failed) -> tuple[str, str | None]:
    if isinstance(ending, Failed):
        return ending.message, ending.code
    return "The run ended before the agent had done its work.", None
