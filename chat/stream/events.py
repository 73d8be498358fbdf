"""Declares every event of a turn's stream, once.

The fields are the payload, exactly, and ``event`` is the name. ``docs/events.md`` and the OpenAPI
document are generated from here. A field that is ``UNSET`` is left out of the payload. Fields that
are added later need a default, or journals of earlier releases can't be read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

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
from chat.stream.attached_file import AttachedFile
from chat.stream.usage import CallUsage, Deprecated, TurnUsage

SUMMARY_LENGTH = 200
"""Characters of a result that an event shows on one line."""

TurnPhase = Literal[
    "loading_model",
    "retrying",
    "waiting_for_tool",
    "waiting_for_confirmation",
    "compressing_context",
    "warning",
]


ResumeReason = Literal["process_died", "server_stopped"]
"""Why a turn goes on in another process."""


class TurnStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The turn has begun; always the first event. The first answer will be ``message_id``.

    ``attachments`` are the images and files of the message that came with the request.
    ``user_message_id`` and ``user_message_index`` name the user message in the session that the
    turn answers: what followed it is replaced by what the stream shows. They are absent where the
    turn goes on after tool calls.
    """

    event: ClassVar[str] = "turn_started"
    turn_id: str
    session_id: str
    model: str
    message_id: str | UnsetType = UNSET
    attachments: tuple[AttachedFile, ...] | UnsetType = UNSET
    user_message_id: str | UnsetType = UNSET
    user_message_index: int | UnsetType = UNSET

    @property
    def first_message_id(self) -> str | None:
        """The id of the user message that the turn answers, or of its first answer."""
        known = self.message_id if self.user_message_id is UNSET else self.user_message_id
        return None if known is UNSET else known


class TurnResumed(msgspec.Struct, frozen=True, kw_only=True):
    """The turn goes on in another process; sent only where continuing is allowed (``on_crash``).

    With ``keeps`` ``text`` the message ``message_id`` goes on where it stopped; with ``results``
    the message ``message_id`` begins. Messages in ``discarded`` are void: clients drop them or
    grey them out. Calls and questions may come again under ids that were shown before.
    """

    event: ClassVar[str] = "turn_resumed"
    turn_id: str
    session_id: str
    attempt: int
    reason: ResumeReason
    keeps: Literal["text", "results"]
    message_id: str
    discarded: Sequence[str] | UnsetType = UNSET


class ContentDelta(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The next piece of the answer's text."""

    event: ClassVar[str] = "content_delta"
    content: str
    role: str = "assistant"


class ContentReset(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The text of the answer so far is void: it does not fit ``response_format`` and comes anew.

    Its reasoning stays.
    """

    event: ClassVar[str] = "content_reset"
    message_id: str


class ThinkingContentDelta(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The next piece of the model's reasoning."""

    event: ClassVar[str] = "thinking_delta"
    content: str


class ToolCallStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The model asked for a tool that runs without approval."""

    event: ClassVar[str] = "tool_call"
    tool_name: str
    arguments: Mapping[str, Any]
    call_index: int
    tool_call_id: str


class ClientToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """The model asked for a tool that the client runs; the turn ends with it.

    Only where a request offers tools of its client. There is one for each such call, right before
    ``message_complete``, whose ``done_reason`` is ``tool_calls``; or before ``done``, where other
    calls of the answer wait for an approval. The next request brings the results.
    """

    event: ClassVar[str] = "client_tool_call"
    tool_name: str
    arguments: Mapping[str, Any]
    call_index: int
    tool_call_id: str


AskedBecause = Literal["tool_changed", "may_have_run"]
"""Why a call needs an approval that the policies don't ask for."""


class ToolConfirmationRequired(msgspec.Struct, frozen=True, kw_only=True):
    """A person is asked (``confirm-tool``): may a tool run that the model asked for?

    With ``kind`` the ``server`` of a running tool asks instead: for values that fit ``schema``
    (``input``; ``secret_names`` look like secrets), or to open the address ``url`` (``url``).
    ``arguments`` are empty then. With ``call_ended`` the call is repeated with the answer, also if
    the process dies meanwhile; without it the call waits, and dies with its process.

    When an agent asks, ``tool_call_id`` is the call of the agent, and ``inner_tool_call_id`` the
    call that is asked about. ``reason`` is there when policies did not ask for it: the tool is not
    what it was when the session enabled it (``tool_changed``), or the call had begun when its
    process died (``may_have_run``). It can be answered until ``expires_at``.
    """

    event: ClassVar[str] = "tool_call_confirmation_required"
    tool_name: str
    arguments: Mapping[str, Any]
    call_index: int
    tool_call_id: str
    confirmation_id: str
    agent_name: str | UnsetType = UNSET
    inner_tool_call_id: str | UnsetType = UNSET
    reason: AskedBecause | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    kind: Literal["input", "url"] | UnsetType = UNSET
    server: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    schema: Mapping[str, Any] | UnsetType = UNSET
    url: str | UnsetType = UNSET
    secret_names: Sequence[str] | UnsetType = UNSET
    call_ended: bool | UnsetType = UNSET


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The next piece of a call's arguments, from providers that stream them.

    The first piece of a call has its ``tool_name``, where the provider tells it by then. The whole
    call follows with an event of its own, unless the turn breaks off.
    """

    event: ClassVar[str] = "tool_call_delta"
    call_index: int
    tool_call_id: str
    arguments: str
    tool_name: str | UnsetType = UNSET


class ToolResultReceived(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool ran, or could not be run; ``attachments`` are the images and files it returned.

    A call without a ``tool_call`` has its ``arguments`` here: where it was approved, those that the
    tool ran with, which a person may have changed. ``confirmation_id`` is the question about it.
    """

    event: ClassVar[str] = "tool_result"
    tool_name: str
    success: bool
    result: str | None
    error_message: str | None
    call_index: int
    tool_call_id: str
    summary: str
    execution_time_ms: float
    error_code: str | UnsetType = UNSET
    server: str | UnsetType = UNSET
    attachments: tuple[AttachedFile, ...] = ()
    arguments: Mapping[str, Any] | UnsetType = UNSET
    confirmation_id: str | UnsetType = UNSET


class FinishedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call and what came of it: an entry of ``tool_calls_executed`` and ``tool_calls``.

    ``ToolResultReceived`` is the same as an event, without the arguments if ``tool_call`` had them.
    """

    tool_name: str
    tool_call_id: str
    call_index: int
    arguments: Mapping[str, Any]
    success: bool
    result: str | None
    error_message: str | None
    execution_time_ms: float
    attachments: tuple[AttachedFile, ...] = ()

    def event(
        self,
        *,
        error_code: str | None = None,
        server: str | None = None,
        was_announced: bool = True,
        confirmation_id: str | None = None,
    ) -> ToolResultReceived:
        """Return the event of this call, without arguments that an earlier event announced."""
        text = (self.error_message or "") if self.result is None else self.result
        return ToolResultReceived(
            tool_name=self.tool_name,
            success=self.success,
            result=self.result,
            error_message=self.error_message,
            call_index=self.call_index,
            tool_call_id=self.tool_call_id,
            summary=text[:SUMMARY_LENGTH],
            execution_time_ms=self.execution_time_ms,
            error_code=UNSET if error_code is None else error_code,
            server=UNSET if server is None else server,
            attachments=self.attachments,
            arguments=UNSET if was_announced else self.arguments,
            confirmation_id=UNSET if confirmation_id is None else confirmation_id,
        )

    @staticmethod
    def of(event: ToolResultReceived, arguments: Mapping[str, Any]) -> "FinishedCall":
        """Return the call that an event describes."""
        return FinishedCall(
            tool_name=event.tool_name,
            tool_call_id=event.tool_call_id,
            call_index=event.call_index,
            arguments=arguments,
            success=event.success,
            result=event.result,
            error_message=event.error_message,
            execution_time_ms=event.execution_time_ms,
            attachments=event.attachments,
        )


class ToolContinuationStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The tools' results go back to the model; its answer will be ``message_id``."""

    event: ClassVar[str] = "tool_continuation_start"
    message: str = "Processing tool results..."
    message_id: str | UnsetType = UNSET


class MessageQueued(msgspec.Struct, frozen=True, kw_only=True):
    """A message waits for the turn to end, or to take it; told to other listeners of the turn."""

    event: ClassVar[str] = "message_queued"
    message_id: str
    when_busy: str
    position: int


class MessageTaken(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a person sent while the turn ran is part of the session and of the turn.

    It stands after the results of the tools, and the next request to the model has it.
    """

    event: ClassVar[str] = "message_taken"
    message_id: str
    content: str
    user_message_index: int
    attachments: tuple[AttachedFile, ...] | UnsetType = UNSET
    when_busy: Literal["steer"] = "steer"


class StatusChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The turn began to wait for something, or continues to wait.

    A tool that reports its progress does so here: ``progress`` of ``total``, in its own units.
    """

    event: ClassVar[str] = "status"
    state: TurnPhase
    tool_call_id: str | UnsetType = UNSET
    progress: float | UnsetType = UNSET
    total: float | UnsetType = UNSET
    message: str | UnsetType = UNSET


class MessageComplete(msgspec.Struct, frozen=True, kw_only=True):
    """The final answer is on disk; ``answered_by`` is the model that a profile named.

    ``usage`` is that of the last model call, ``turn_usage`` that of the turn. ``parsed`` is the
    JSON of ``content``, where the request has a ``response_format`` that wants some.
    """

    event: ClassVar[str] = "message_complete"
    message_id: str
    model: str
    eval_count: Deprecated[int | None]
    prompt_eval_count: Deprecated[int | None]
    context_window: Mapping[str, Any]
    content: str
    thinking: str | None
    tool_calls: Sequence[FinishedCall]
    turn_id: str
    done_reason: str | None
    usage: CallUsage
    answered_by: str | UnsetType = UNSET
    turn_usage: TurnUsage | UnsetType = UNSET
    parsed: msgspec.Raw | UnsetType = UNSET


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """The turn was stopped; what there was of the answer is on disk."""

    event: ClassVar[str] = "cancelled"
    content: str
    thinking: str | None
    model: str
    message_id: str
    turn_usage: TurnUsage | UnsetType = UNSET


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The turn broke off; ``details`` always has ``retryable``."""

    event: ClassVar[str] = "error"
    code: str
    message: str
    details: Mapping[str, Any]
    turn_usage: TurnUsage | UnsetType = UNSET


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The stream is complete; always the last event, exactly once.

    ``saved_at`` is the time of the turn's last answer, whole or waiting for an approval;
    ``turn_usage`` is there if it waits: then no other event has it. ``queued`` is the number of
    messages that wait for the next turn, if any do.
    """

    event: ClassVar[str] = "done"
    session_id: str
    saved_at: str | UnsetType = UNSET
    turn_usage: TurnUsage | UnsetType = UNSET
    queued: int | UnsetType = UNSET


Event = (
    TurnStarted
    | TurnResumed
    | ContentDelta
    | ContentReset
    | ThinkingContentDelta
    | ToolCallStarted
    | ClientToolCall
    | ToolConfirmationRequired
    | ToolCallDelta
    | ToolResultReceived
    | AgentStarted
    | AgentPlanning
    | AgentExecution
    | AgentToolCall
    | AgentToolResult
    | AgentComplete
    | MessageQueued
    | MessageTaken
    | ToolContinuationStarted
    | StatusChanged
    | MessageComplete
    | Cancelled
    | Failed
    | Done
)

EVENTS: tuple[type[Event], ...] = Event.__args__
