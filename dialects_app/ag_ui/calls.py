"""Converts tool calls and their results to AG-UI events. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from chat.stream.agent_events import AgentToolResult
from chat.stream.events import ToolResultReceived
from dialects_app.ag_ui.frames import Frames
from dialects_app.shared.shown_calls import arguments_text, shown_call
from sessions_app.messages import Attachment, ToolCall

_NO_CALLS: Mapping[str, ToolCall] = {}


class ResumedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that an earlier turn of the session requested and that this turn runs.

    Attributes:
        asking_id: The message with the calls.
        calls: The calls, by their ids.
        known: The ids of calls that the client has already.
    """

    asking_id: str = ""
    calls: Mapping[str, ToolCall] = _NO_CALLS
    known: frozenset[str] = frozenset()


class ShownCalls:
    """Makes the events of the calls of a turn, or of an agent in it.

    Args:
        frames: Receives the events.
        resumed: The calls that the turn resumes.
        subagent_run_id: The agent's run, for calls of an agent.
    """

    def __init__(
        self,
        frames: Frames,
        resumed: ResumedCalls | None = None,
        subagent_run_id: str | None = None,
    ) -> None:
        self._frames = frames
        self._resumed = resumed or ResumedCalls()
        self._subagent = subagent_run_id
        self._shown = set(self._resumed.known)
        self._open: set[str] = set()

    def begin_round(self) -> None:
        """Treat ids as new: some providers restart their numbering with each answer."""
        self.end()
        self._shown.clear()
        self._resumed = ResumedCalls()

    def begin(self, call_id: str, name: str, *, parent_id: str) -> str:
        """Start a call whose arguments are streamed, unless the client has it already.

        Returns:
            The id of the message with the call; empty if the client has it already.
        """
        if call_id in self._shown:
            return ""
        self._shown.add(call_id)
        self._open.add(call_id)
        self._start(call_id, name, parent_id)
        return parent_id

    def add_arguments(self, call_id: str, piece: str) -> None:
        """Send the next piece of the arguments of a started call; ignore other calls."""
        if call_id in self._open:
            who = self._subagent
            self._frames.add("TOOL_CALL_ARGS", toolCallId=call_id, delta=piece, subagentRunId=who)

    def end(self) -> None:
        """End the calls that were started and not completed."""
        for call_id in sorted(self._open):
            self._frames.add("TOOL_CALL_END", toolCallId=call_id, subagentRunId=self._subagent)
        self._open.clear()

    def discard(self) -> None:
        """End the calls that were started, and forget them: another call may have their ids."""
        self._shown -= self._open
        self.end()

    def show(
        self,
        call_id: str,
        name: str,
        arguments: Mapping[str, Any] | None,
        *,
        parent_id: str = "",
    ) -> str:
        """Send a call, or its missing part, unless the client has it already.

        Args:
            call_id: The call.
            name: Its tool, or its agent.
            arguments: Its arguments; None if unknown.
            parent_id: The message with the call, unless it is resumed.

        Returns:
            The id of the message with the call; empty if the client has it already.
        """
        if call_id in self._open:
            self._open.discard(call_id)
            self._frames.add("TOOL_CALL_END", toolCallId=call_id, subagentRunId=self._subagent)
        if call_id in self._shown:
            return ""
        self._shown.add(call_id)
        resumed = self._resumed.calls.get(call_id)
        if resumed is not None:
            parent_id = self._resumed.asking_id
            if arguments is None:
                shown = shown_call(resumed)
                name, arguments = shown.name, shown.arguments
        who = self._subagent
        self._start(call_id, name, parent_id)
        if arguments is not None:
            delta = arguments_text(arguments)
            self._frames.add("TOOL_CALL_ARGS", toolCallId=call_id, delta=delta, subagentRunId=who)
        self._frames.add("TOOL_CALL_END", toolCallId=call_id, subagentRunId=who)
        return parent_id

    def _start(self, call_id: str, name: str, parent_id: str) -> None:
        self._frames.add(
            "TOOL_CALL_START",
            toolCallId=call_id,
            toolCallName=name,
            parentMessageId=parent_id or None,
            subagentRunId=self._subagent,
        )

    def show_result(
        self, call_id: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Send the result of a call."""
        self._shown.discard(call_id)  # another call may come to have its id
        self._frames.add(
            "TOOL_CALL_RESULT",
            messageId=result_id(call_id),
            toolCallId=call_id,
            content=content,
            role="tool",
            subagentRunId=self._subagent,
            metadata=metadata,
        )


def result_id(call_id: str) -> str:
    """Return the id of the message with a call's result."""
    return f"result-{call_id}"


def result_metadata(result: ToolResultReceived | AgentToolResult) -> dict[str, Any]:
    """Return the metadata of a result."""
    found: dict[str, Any] = {"success": result.success}
    if isinstance(result.error_code, str):
        found["errorCode"] = result.error_code
    if result.attachments:
        found["attachments"] = attachments_of(result.attachments)
    return found


def attachments_of(attachments: tuple[Attachment, ...]) -> Any:
    """Return references to images and files: ``GET /attachments/{id}`` has their bytes."""
    return msgspec.to_builtins(attachments)
