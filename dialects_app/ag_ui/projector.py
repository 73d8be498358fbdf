"""Converts a turn's events to AG-UI events (a ``Projector``). Pure (docs/decisions/0082)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from chat.http import sse
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
    Done,
    Failed,
    MessageComplete,
    StatusChanged,
    ToolCallDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolContinuationStarted,
    ToolResultReceived,
    TurnStarted,
)
from chat.stream.numbered_event import NumberedEvent
from dialects_app.ag_ui.calls import (
    FAILED,
    ResumedCalls,
    ShownCalls,
    agent_arguments,
    result_metadata,
    result_text,
    shown_call,
)
from dialects_app.ag_ui.frames import Frames
from dialects_app.ag_ui.interrupts import interrupt_of
from dialects_app.ag_ui.subagents import Subagent
from dialects_app.ag_ui.text_events import TextEvents
from sessions_app.messages import ToolCall, Usage
from tools_app.toolset import AGENT_TOOL

PROTOCOL_VERSION = "1.0"
"""The version of AG-UI that is spoken; in no release another one without a word in the changes."""


class RunProjector:
    """Converts the events of a turn to those of a run.

    The first event makes ``RUN_STARTED``, and ``done`` makes ``RUN_FINISHED`` or ``RUN_ERROR``,
    after everything open was closed. The output depends on the events and the arguments only.

    Args:
        thread_id: The client's name of the session.
        run_id: The client's id of the turn; None for other clients, which get the turn's id.
        resumed: Calls of an earlier turn that this turn runs.
        messages: The messages before the turn, for a client that does not have them.
    """

    opening = b""
    heartbeat = sse.HEARTBEAT
    has_ended = False

    def __init__(
        self,
        thread_id: str,
        run_id: str | None = None,
        *,
        resumed: ResumedCalls | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self._thread_id = thread_id
        self._run_id = run_id
        self._messages = messages
        self._frames = Frames()
        self._texts = TextEvents(self._frames)
        self._calls = ShownCalls(self._frames, resumed)
        self._turn_id = ""
        self._model = ""
        self._round = 0
        self._ending: MessageComplete | Cancelled | Failed | None = None
        self._left_to_client: list[str] = []
        self._interrupts: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, str] = {}
        self._agents: dict[str, Subagent] = {}
        self._agent_runs: dict[str, int] = {}
        self._show: Mapping[str, Callable[[Any], None]] = {
            TurnStarted.event: self._begin,
            ToolCallDelta.event: self._stream_arguments,
            ToolCallStarted.event: self._call,
            ClientToolCall.event: self._leave_to_client,
            ToolConfirmationRequired.event: self._ask,
            ToolResultReceived.event: self._result,
            AgentStarted.event: self._begin_agent,
            AgentPlanning.event: lambda said: self._of_agent(said).say("planning", said.content),
            AgentExecution.event: lambda said: self._of_agent(said).say("execution", said.content),
            AgentToolCall.event: lambda call: self._of_agent(call).call(call),
            AgentToolResult.event: self._result_of_agent,
            AgentComplete.event: self._end_agent,
            ToolContinuationStarted.event: self._go_on,
            MessageComplete.event: self._note_ending,
            Cancelled.event: self._note_ending,
            Failed.event: self._note_ending,
            Done.event: self._end,
        }

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
                show = self._show.get(name)
                if show is not None:
                    show(event.decode())
        return self._frames.take()

    # The run

    def _begin(self, started: TurnStarted) -> None:
        self._turn_id, self._model = started.turn_id, started.model
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
        if self._messages is not None:
            self._frames.add("MESSAGES_SNAPSHOT", messages=self._messages)
        self._name_answer(started.message_id)

    def _go_on(self, going_on: ToolContinuationStarted) -> None:
        self._round += 1
        self._calls.begin_round()
        self._name_answer(going_on.message_id)

    def _name_answer(self, message_id: str | UnsetType) -> None:
        """Remember the id of the next answer, which is missing in journals of older servers."""
        made_up = f"{self._turn_id}{self._round}"
        self._texts.begin_answer(made_up if message_id is UNSET else message_id)

    def _note_ending(self, ending: MessageComplete | Cancelled | Failed) -> None:
        self._ending = ending

    def _end(self, done: Done) -> None:
        ending = self._ending
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
        used = (done if ending is None else ending).turn_usage
        usage, about = usage_of(used, self._model), _about(ending, used)
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
        if isinstance(self._ending, Cancelled):
            return {"type": "cancelled"}
        if self._ending is None and self._interrupts:
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

    def _stream_arguments(self, delta: ToolCallDelta) -> None:
        """Send a piece of a call's arguments; calls of agents are renamed and sent whole.

        An open text stays open, because the model may continue it after the call.
        """
        call_id, name = delta.tool_call_id, delta.tool_name
        if name is not UNSET and name != AGENT_TOOL:
            parent = self._calls.begin(call_id, name, parent_id=self._texts.message_id)
            self._texts.note(parent)
        self._calls.add_arguments(call_id, delta.arguments)

    def _call(self, call: ToolCallStarted) -> None:
        self._show_call(call.tool_call_id, call.tool_name, call.arguments)

    def _leave_to_client(self, call: ClientToolCall) -> None:
        self._show_call(call.tool_call_id, call.tool_name, call.arguments)
        self._left_to_client.append(call.tool_call_id)

    def _ask(self, asked: ToolConfirmationRequired) -> None:
        agent = None if asked.agent_name is UNSET else self._agents.get(asked.tool_call_id)
        if agent is not None:
            interrupt = agent.ask(asked)
        else:
            call_id = asked.tool_call_id
            self._show_call(call_id, asked.tool_name, asked.arguments)
            self._asked[call_id] = asked.confirmation_id
            interrupt = interrupt_of(asked, tool_call_id=call_id)
        self._interrupts[asked.confirmation_id] = interrupt
        self._frames.add("CUSTOM", name="interrupt", value=interrupt)

    def _result(self, result: ToolResultReceived) -> None:
        call_id = result.tool_call_id
        if result.arguments is UNSET:
            self._show_call(call_id, result.tool_name, None)
        else:
            call = ToolCall(id=call_id, name=result.tool_name, arguments=result.arguments)
            self._show_call(call_id, *shown_call(call))
        self._calls.show_result(call_id, result_text(result), result_metadata(result))
        self._interrupts.pop(self._asked.pop(call_id, ""), None)

    # Agents

    def _begin_agent(self, started: AgentStarted) -> None:
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
            self._begin_agent(
                AgentStarted(
                    agent_name=event.agent_name,
                    call_index=event.call_index,
                    tool_call_id=event.tool_call_id,
                    instruction="",
                )
            )
        return self._agents[event.tool_call_id]

    def _result_of_agent(self, result: AgentToolResult) -> None:
        agent = self._agents.get(result.tool_call_id)
        if agent is not None:
            self._interrupts.pop(agent.result(result) or "", None)

    def _end_agent(self, complete: AgentComplete) -> None:
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
