"""Converts an agent's steps, texts and calls to AG-UI events. Pure."""

from typing import Any, Literal

from msgspec import UNSET

from chat.stream.agent_events import AgentToolCall, AgentToolResult
from chat.stream.encoding import ascii_json
from chat.stream.events import ToolConfirmationRequired
from dialects_app.ag_ui.calls import ShownCalls, result_metadata
from dialects_app.ag_ui.frames import TAIL, Frames, delta_head
from dialects_app.ag_ui.interrupts import interrupt_of
from dialects_app.shared.shown_calls import result_text

Step = Literal["planning", "execution"]


class Subagent:
    """An agent that runs as part of a turn.

    Args:
        frames: Receives the events.
        run_id: The id of the agent's run, unique within the caller's run.
        call_id: The call of the agent.
        name: The agent.
        parent_id: The message with the call.
    """

    def __init__(
        self, frames: Frames, run_id: str, *, call_id: str, name: str, parent_id: str | None
    ) -> None:
        self._frames = frames
        self._run_id = run_id
        self._step: Step | None = None
        self._text = ""
        self._head = ""
        self._texts = 0
        self._calls = ShownCalls(frames, subagent_run_id=run_id)
        self._questions: dict[str, str] = {}
        frames.add(
            "SUBAGENT_STARTED",
            subagentRunId=run_id,
            name=name,
            parentToolCallId=call_id,
            parentMessageId=parent_id or None,
        )

    def say(self, step: Step, text: str) -> None:
        """Send the next piece of the agent's text in a step."""
        if step != self._step:
            self._end_step()
            self._step = step
            self._frames.add("STEP_STARTED", stepName=step, subagentRunId=self._run_id)
        if not self._text:
            self._texts += 1
            self._text = f"{self._run_id}-{step}-{self._texts}"
            self._frames.add(
                "TEXT_MESSAGE_START",
                messageId=self._text,
                role="assistant",
                subagentRunId=self._run_id,
            )
            self._head = delta_head("TEXT_MESSAGE_CONTENT", self._text, self._run_id)
        self._frames.add_encoded(f"{self._head}{ascii_json(text)}{TAIL}")

    def call(self, call: AgentToolCall) -> None:
        """Send a tool call of the agent."""
        self._end_text()
        self._calls.show(self._inner(call.inner_tool_call_id), call.tool_name, call.arguments)

    def ask(self, question: ToolConfirmationRequired) -> dict[str, Any]:
        """Send a call that needs approval, and return its interrupt."""
        self._end_text()
        inner = question.inner_tool_call_id
        call_id = self._inner(question.tool_call_id if inner is UNSET else inner)
        self._calls.show(call_id, question.tool_name, question.arguments)
        self._questions[call_id] = question.confirmation_id
        return interrupt_of(question, tool_call_id=call_id, subagent_run_id=self._run_id)

    def result(self, result: AgentToolResult) -> str | None:
        """Send the result of a call; return the id of its approval, if any."""
        self._end_text()
        call_id = self._inner(result.inner_tool_call_id)
        self._calls.show(call_id, result.tool_name, None)
        self._calls.show_result(call_id, result_text(result), result_metadata(result))
        return self._questions.pop(call_id, None)

    def finish(self) -> None:
        """Send the end of the agent's run."""
        self._end("SUBAGENT_FINISHED", outcome={"type": "success"})

    def suspend(self) -> None:
        """Send that the agent waits for approvals."""
        outcome = {"type": "suspended", "interruptIds": list(self._questions.values())}
        self._end("SUBAGENT_FINISHED", outcome=outcome)

    def fail(self, message: str, code: str | None = None) -> None:
        """Send that the agent failed or was stopped."""
        self._end("SUBAGENT_ERROR", message=message, code=code)

    def _end(self, kind: str, **fields: Any) -> None:
        self._end_step()
        self._frames.add(kind, subagentRunId=self._run_id, **fields)

    def _end_step(self) -> None:
        self._end_text()
        if self._step is not None:
            self._frames.add("STEP_FINISHED", stepName=self._step, subagentRunId=self._run_id)
            self._step = None

    def _end_text(self) -> None:
        if self._text:
            self._frames.add("TEXT_MESSAGE_END", messageId=self._text, subagentRunId=self._run_id)
            self._text = ""

    def _inner(self, call_id: str) -> str:
        """Return a unique id for a call of the agent, since other calls may have the same id."""
        return f"{self._run_id}:{call_id}"
