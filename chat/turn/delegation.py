"""Declares the port to tools that run turns, as agents do (docs/decisions/0012)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from chat.approvals.approver import Approver, Emit
from chat.turn.call_queues import CallQueues
from sessions_app.errors import MochiError
from sessions_app.messages import Attachment, Message, UserMessage
from sessions_app.session import Session
from sessions_app.variants import answer_start
from tools_app.toolset import ToolInvocation, ToolListing, ToolResult

RunningNow = Callable[[], dict[str, Any]]
"""Returns what is running: ``{"upstream": bool, "tools": [str], "agents": [str]}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingTurn:
    """The turn on whose behalf a delegated call runs.

    Attributes:
        session: The calling session, whose model and policies apply to the call, too.
        approver: Decides which calls may run, and asks for approval.
        emit: Sends events to the listeners of the calling turn.
        queues: The queues of its tool calls, which the call's own tool calls join.
        children: What tells of the turns that currently run on its behalf.
        why_stopped: Returns the error that stopped the turn; None after a request to cancel.
        attachments: The attachments of the user's message, which the call gets, too.
        options: The sampling options of the turn, by Ollama's names; an agent that is the session's
            model runs with them.
        require_hold: Called before each call; raises ``TurnInterrupted`` if other processes may
            consider this one dead, so that a call might run twice.
    """

    session: Session
    approver: Approver
    emit: Emit
    queues: CallQueues
    children: set[RunningNow]
    why_stopped: Callable[[], MochiError | None]
    attachments: tuple[Attachment, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    require_hold: Callable[[], None]


def asked_with(messages: Sequence[Message]) -> tuple[Attachment, ...]:
    """Return the images and files of the user's last messages."""
    asked: list[Attachment] = []
    for message in reversed(messages[: answer_start(messages)]):
        if not isinstance(message, UserMessage):
            break
        asked[:0] = message.attachments
    return tuple(asked)


class Delegate(Protocol):
    """Runs tool calls as turns of their own."""

    async def listing(self, agents: Sequence[str]) -> ToolListing:
        """Return the tools that call these agents."""
        ...

    async def run(self, invocation: ToolInvocation, turn: CallingTurn) -> ToolResult:
        """Run a call. If the caller is cancelled, the call is stopped and saved first.

        A suspended call resumes when it is run again.

        Raises:
            MochiError: The call can't be run; no event was sent.
            NobodyToApprove: An inner call needs an approval, and no client listens.
        """
        ...

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """Return the display name of the agent that a call is delegated to."""
        ...
