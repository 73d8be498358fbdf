"""Converts a turn's events to a UI message stream of the AI SDK (a ``Projector``). Pure."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec
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
from dialects_app.ai_sdk.agent_data import AgentData
from dialects_app.ai_sdk.chunks import (
    DONE,
    FINISH_REASONS,
    chunk,
    file_part,
    message_id_of,
    tool_chunk,
    user_data,
)
from dialects_app.shared.turn_fold import TurnFold
from tools_app.errors import EXECUTION_DENIED
from tools_app.toolset import AGENT_TOOL

_NOBODY: frozenset[str] = frozenset()
_BROKEN_OFF = "The call broke off before it was whole."
_WAITS = "The call waits for the answers about those beside it."
"""Shown of a call until it runs: a client with an open input does not send its answers."""


class UIMessageProjector(TurnFold):
    """Converts events to chunks; a turn is one message of the client.

    A request for approval ends the stream, while the turn waits: the client sends the decision with
    its next request, which gets the rest of the stream.

    Args:
        session_id: The session.
        turn_id: The turn.
        message_id: The message of the chunks; by default that of the turn.
        decided: The confirmations decided when the client connected; its stream ends at requests
            that include undecided ones.
        answered: The confirmations that the client has just decided; it gets the events after
            these requests, since it had those before.
        known: The calls that the client has from an earlier turn.

    Attributes:
        has_ended: Whether the end of the stream was returned.
    """

    def __init__(
        self,
        session_id: str,
        turn_id: str,
        *,
        message_id: str | None = None,
        decided: AbstractSet[str] = _NOBODY,
        answered: AbstractSet[str] = _NOBODY,
        known: AbstractSet[str] = _NOBODY,
    ) -> None:
        super().__init__(turn_id)
        self._session_id = session_id
        self._message_id = message_id or message_id_of(turn_id)
        self._decided = decided | answered
        self._answered = set(answered)
        self._skips = bool(answered)
        self._asked: set[str] = set()
        self._known = set(known)
        self._inputs: dict[str, Mapping[str, Any]] = {}
        self._streamed: dict[str, str] = {}
        self._agents: dict[str, AgentData] = {}
        self._chunks: list[str] = []
        self._open = ""
        self._part = 0
        self._is_in_step = False
        self._is_resumed = False
        self._delta = ""

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        """Return the chunks for the next events. The hot path."""
        chunks = self._chunks
        for event in events:
            name = event.name
            if name == "content_delta" or name == "thinking_delta":  # noqa: PLR1714 - hot
                if not self._skips and not self.has_ended:
                    if self._open != name:
                        self._open_part(name)
                    chunks.append(f"{self._delta}{text_literal(event.data)}}}\n\n")
            elif not self.has_ended:
                self.follow(event)
        if not chunks:
            return b""
        said = "".join(chunks)
        chunks.clear()
        return said.encode("ascii")

    # Parts

    def _open_part(self, name: str) -> None:
        self._close_part()
        self._go_on()
        kind, self._open = "text" if name == "content_delta" else "reasoning", name
        self._part += 1
        self._chunks.append(chunk(f"{kind}-start", id=str(self._part)))
        self._delta = f'data: {{"type":"{kind}-delta","id":"{self._part}","delta":'

    def _on_content_reset(self, _: ContentReset) -> None:
        self._close_part()  # the protocol can't take a text back; the next one stands apart

    def _close_part(self) -> None:
        if self._open:
            kind = "text" if self._open == "content_delta" else "reasoning"
            self._chunks.append(chunk(f"{kind}-end", id=str(self._part)))
            self._open = ""

    def _begin_step(self) -> None:
        if not self._is_in_step:
            self._is_in_step = True
            self._chunks.append(chunk("start-step"))

    def _go_on(self) -> None:
        """Begin the step of the answer that is coming, of which no other event tells."""
        if self._is_resumed:
            self._end_step()
        self._is_resumed = False
        self._begin_step()

    def _end_step(self, without_call: str = _BROKEN_OFF) -> None:
        """End a step and its incomplete tool inputs, with an explanation."""
        self._close_part()
        for call_id, name in self._streamed.items():
            fields = {"toolName": name, "input": {}, "errorText": without_call}
            self._chunks.append(tool_chunk("tool-input-error", call_id, **fields))
        self._streamed.clear()
        if self._is_in_step:
            self._is_in_step = False
            self._chunks.append(chunk("finish-step"))

    def _add(self, encoded: str) -> None:
        """Add a chunk other than text."""
        if not self._skips:
            self._close_part()
            self._chunks.append(encoded)

    # The turn

    def _on_turn_started(self, started: TurnStarted) -> None:
        metadata = {"session_id": self._session_id, "model": started.model}
        self._chunks.append(chunk("start", messageId=self._message_id, messageMetadata=metadata))
        if not self._skips:
            self._begin_step()

    def _on_tool_continuation_start(self, _: ToolContinuationStarted) -> None:
        self._is_resumed = False
        if not self._skips:
            self._end_step()
            self._begin_step()

    def _on_turn_resumed(self, resumed: TurnResumed) -> None:
        """Tell the page; a text in parts can't be taken back, and the message goes on after it."""
        self._is_resumed = resumed.keeps == "results"
        if self._skips:
            return
        told = msgspec.to_builtins(resumed)
        if resumed.discarded:  # then it stays in the message, after the parts that are void
            self._add(chunk("data-resumed", data=told))
        else:
            self._chunks.append(chunk("data-resumed", data=told, transient=True))

    def _on_message_taken(self, taken: MessageTaken) -> None:
        files = taken.attachments or ()
        self._add(chunk("data-user-message", **user_data(taken.message_id, taken.content, files)))

    def _on_status(self, status: StatusChanged) -> None:
        if status.state == "waiting_for_confirmation" and self._asked:
            self._all_are_asked()
        elif not self._skips:
            told = msgspec.to_builtins(status)
            self._chunks.append(chunk("data-status", data=told, transient=True))

    def _all_are_asked(self) -> None:
        """Handle the last approval request of a round: end the stream, or start to show events."""
        asked, self._asked = self._asked, set()
        if self._skips:
            self._answered -= asked
            self._skips = bool(self._answered)
        if not self._skips and not asked <= self._decided:
            self._finish("tool-calls", without_call=_WAITS)
            self._stop()

    def _on_message_complete(self, complete: MessageComplete) -> None:
        reason = FINISH_REASONS.get(complete.done_reason, "other")
        metadata: dict[str, Any] = {"message_id": complete.message_id}
        if complete.turn_usage is not UNSET:
            metadata["usage"] = msgspec.to_builtins(complete.turn_usage)
        self._finish(reason, metadata)

    def _on_cancelled(self, _: Cancelled) -> None:
        self._end_step()
        self._chunks.append(chunk("abort", reason="cancelled"))

    def _on_error(self, failed: Failed) -> None:
        self._end_step()
        self._chunks.append(chunk("error", errorText=failed.message))

    def _on_done(self, _: Done) -> None:
        if self._asked or self._is_in_step or self._open:  # the turn was suspended
            self._finish("tool-calls", without_call=_WAITS)
        self._stop()

    def _finish(
        self,
        reason: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        without_call: str = _BROKEN_OFF,
    ) -> None:
        self._end_step(without_call)
        self._chunks.append(chunk("finish", finishReason=reason, messageMetadata=metadata))

    def _stop(self) -> None:
        self.has_ended = True
        self._chunks.append(DONE)

    # Calls

    def _on_tool_call_delta(self, delta: ToolCallDelta) -> None:
        """Send a piece of a call's input; calls of agents are renamed and sent whole."""
        call_id, name = delta.tool_call_id, delta.tool_name
        if self._skips:
            return
        if name is not UNSET and name != AGENT_TOOL:
            self._go_on()
            self._streamed[call_id] = name
            self._add(tool_chunk("tool-input-start", call_id, toolName=name))
        if call_id in self._streamed:
            piece = delta.arguments
            self._add(chunk("tool-input-delta", toolCallId=call_id, inputTextDelta=piece))

    def _on_tool_call(self, call: ToolCallStarted | ClientToolCall) -> None:
        self._show_call(call.tool_call_id, call.tool_name, call.arguments)

    _on_client_tool_call = _on_tool_call

    def _show_call(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> None:
        if self._is_resumed and not self._skips and call_id not in self._known:
            self._go_on()
        self._known.add(call_id)
        self._streamed.pop(call_id, None)
        self._add(tool_chunk("tool-input-available", call_id, toolName=name, input=arguments))

    def _on_tool_call_confirmation_required(self, question: ToolConfirmationRequired) -> None:
        if question.kind is not UNSET:  # the call runs, or is repeated: the stream goes on
            told = msgspec.to_builtins(question)
            self._add(chunk("data-elicitation", id=question.confirmation_id, data=told))
            return
        inner = question.inner_tool_call_id
        call_id = question.tool_call_id if inner is UNSET else inner
        self._asked.add(question.confirmation_id)
        self._inputs[call_id] = question.arguments
        self._show_call(call_id, question.tool_name, question.arguments)
        self._add(
            chunk("tool-approval-request", approvalId=question.confirmation_id, toolCallId=call_id)
        )

    def _on_tool_result(self, result: ToolResultReceived) -> None:
        call_id = result.tool_call_id
        if call_id not in self._known:  # it was refused before it began
            ran_with = {} if result.arguments is UNSET else result.arguments
            self._show_call(call_id, result.tool_name, ran_with)
        self._show_change(call_id, result)
        self._show_result(call_id, result)

    def _show_change(self, call_id: str, result: ToolResultReceived | AgentToolResult) -> None:
        """Send the input of a call if it was edited with its approval."""
        ran_with, asked_with = result.arguments, self._inputs.pop(call_id, UNSET)
        if ran_with is not UNSET and asked_with is not UNSET and ran_with != asked_with:
            self._show_call(call_id, result.tool_name, ran_with)

    def _show_result(self, call_id: str, result: ToolResultReceived | AgentToolResult) -> None:
        if result.success:
            self._add(tool_chunk("tool-output-available", call_id, output=result.result or ""))
        elif result.error_code == EXECUTION_DENIED:
            self._add(chunk("tool-output-denied", toolCallId=call_id))
        else:
            error = result.error_message or ""
            self._add(tool_chunk("tool-output-error", call_id, errorText=error))
        for each in result.attachments:
            self._add(chunk("file", **file_part(msgspec.to_builtins(each))))

    # Agents

    def _on_agent_start(self, started: AgentStarted) -> None:
        call_id = started.tool_call_id
        self._show_call(call_id, started.agent_name, {"instruction": started.instruction})
        self._agent(started)
        self._show_agent(call_id)

    def _on_agent_planning(self, planning: AgentPlanning) -> None:
        if self._agent(planning).plan(planning.content):
            self._show_agent(planning.tool_call_id)

    def _on_agent_execution(self, execution: AgentExecution) -> None:
        if self._agent(execution).say(execution.content):
            self._show_agent(execution.tool_call_id)

    def _on_agent_tool_call(self, call: AgentToolCall) -> None:
        self._agent(call).call(call.inner_tool_call_id, call.tool_name, call.arguments)
        self._show_agent(call.tool_call_id)

    def _on_agent_tool_result(self, result: AgentToolResult) -> None:
        inner = result.inner_tool_call_id
        self._agent(result).end_call(
            inner, result.tool_name, result.summary, succeeded=result.success
        )
        if inner in self._known:  # the page was asked about it
            self._show_change(inner, result)
            self._show_result(inner, result)
        self._show_agent(result.tool_call_id)

    def _on_agent_complete(self, complete: AgentComplete) -> None:
        self._agent(complete).end()
        self._show_agent(complete.tool_call_id)
        self._add(
            tool_chunk("tool-output-available", complete.tool_call_id, output=complete.output)
        )

    def _agent(
        self,
        event: AgentStarted
        | AgentPlanning
        | AgentExecution
        | AgentToolCall
        | AgentToolResult
        | AgentComplete,
    ) -> AgentData:
        call_id = event.tool_call_id
        if call_id not in self._agents:
            self._agents[call_id] = AgentData(event.agent_name)
        return self._agents[call_id]

    def _show_agent(self, call_id: str) -> None:
        self._add(chunk("data-agent", id=call_id, data=self._agents[call_id].value()))
