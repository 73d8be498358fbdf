"""Declares the port to tools that are turns themselves, as agents are (docs/decisions/0012)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from chat.approvals.approver import Approver, Emit
from chat.turn.call_queues import CallQueues
from sessions_app.errors import MochiError
from sessions_app.messages import Attachment, Message, UserMessage
from sessions_app.session import Session
from tools_app.toolset import ToolInvocation, ToolListing, ToolResult


class Running(Protocol):
    """Reports what a running turn does."""

    def running_now(self) -> dict[str, Any]:
        """Return what would be stopped: ``{"upstream": bool, "tools": [str], "agents": [str]}``."""
        ...


def _hold() -> None:
    """Let every call run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingTurn:
    """The turn on whose behalf a delegated call runs.

    Attributes:
        session: The calling session: its model and its policies hold for the call too.
        approver: Who decides which calls may run, and asks.
        emit: Sends events to the listeners of the calling turn.
        queues: Where its tool calls wait for each other; the call's own tool calls join them.
        children: The turns that run for it; each is added while it runs.
        why_stopped: Returns the error that stopped the turn; None after a request to cancel.
        attachments: What the user's message has that the turn answers; the call is shown it, too.
        options: The sampling options of the turn, by Ollama's names; an agent that is the session's
            model runs with them.
        require_hold: Asked before each call: raises ``TurnInterrupted`` where others may have taken
            this process for dead, and a call might run twice.
    """

    session: Session
    approver: Approver
    emit: Emit
    queues: CallQueues
    children: set[Running]
    why_stopped: Callable[[], MochiError | None]
    attachments: tuple[Attachment, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    require_hold: Callable[[], None] = _hold


def asked_with(messages: Sequence[Message]) -> tuple[Attachment, ...]:
    """Return the images and files of what the user said last, in one message or several."""
    end = len(messages)
    while end and not isinstance(messages[end - 1], UserMessage):
        end -= 1
    asked: list[Attachment] = []
    for message in reversed(messages[:end]):
        if not isinstance(message, UserMessage):
            break
        asked[:0] = message.attachments
    return tuple(asked)


class Delegate(Protocol):
    """Runs tool calls as turns of their own."""

    async def listing(self, agents: Sequence[str]) -> ToolListing:
        """Return the tools through which these agents are called."""
        ...

    async def run(self, invocation: ToolInvocation, turn: CallingTurn) -> ToolResult:
        """Run a call; when the caller is cancelled, everything has ended and is saved first.

        A call that was suspended goes on where it was when it is run again.

        Raises:
            MochiError: It can't be run; no event was sent.
            NobodyToAsk: A call of the call waits for an approval, and nobody listens.
        """
        ...

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """Return the name of the agent that a call is delegated to, for people."""
        ...
