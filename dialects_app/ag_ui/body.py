"""Declares the body of a run's request: ``RunAgentInput``. Pure."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Required, TypedDict

import msgspec
from msgspec import Meta

from chat.approvals.confirmation import Confirmation, Decision
from dialects_app.shared.fields import refuse
from models_app.language_model import Think
from sessions_app.bounds import FEW
from sessions_app.inbox import WhenBusy

_RunId = Annotated[str, Meta(min_length=1, max_length=200)]


class MessageIn(TypedDict, total=False):
    """A message of the client, with the fields that are read; they depend on its role."""

    id: str | None
    role: Required[str]
    content: Any
    toolCalls: list[dict[str, Any]] | None
    toolCallId: str | None
    error: str | None
    subagentRunId: str | None


class ToolIn(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the client runs; ``parameters`` is a JSON schema of its arguments."""

    name: str
    description: str | None = None
    parameters: Annotated[Mapping[str, Any], FEW] | None = None


class ContextIn(msgspec.Struct, frozen=True, kw_only=True):
    """Context that the application gives the model for this run."""

    description: str
    value: str


class ResumeIn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer to an interrupt.

    Approves with ``status`` ``resolved`` and a ``payload`` whose ``approved`` is ``true``; anything
    else denies. With ``editedArgs`` in the payload the tool runs with those arguments.
    """

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None

    @property
    def approves(self) -> bool:
        """Return whether it approves: only with ``true``, not with other truthy values."""
        if self.status != "resolved" or not isinstance(self.payload, Mapping):
            return False
        return self.payload.get("approved") is True

    @property
    def decision(self) -> Decision:
        """Return the decision.

        Raises:
            ValidationFailed: The edited arguments are no object.
        """
        arguments = self.payload.get("editedArgs") if self.approves else None
        if arguments is not None and not isinstance(arguments, Mapping):
            refuse("resume", "'editedArgs' is an object.")
        return Decision(
            confirmation_id=self.interrupt_id, approved=self.approves, arguments=arguments
        )

    def answer_to(self, question: Confirmation | None) -> Decision:
        """Return the decision on a question, if it is known what it asks.

        Raises:
            ValidationFailed: The edited arguments, or the values for a form, are no object.
        """
        if question is None or question.kind == "call":
            return self.decision
        if self.status != "resolved":
            return Decision(confirmation_id=self.interrupt_id, approved=False)
        if question.schema is not None and not isinstance(self.payload, Mapping):
            refuse("resume", "The 'payload' is an object with the values.")
        content = None if question.schema is None else self.payload
        return Decision(confirmation_id=self.interrupt_id, approved=True, content=content)


class PropsIn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The supported keys of ``forwardedProps``; others are ignored.

    Attributes:
        model: The model of the thread, from this run on.
        think: Whether and how hard to reason, as in ``POST /chat``.
        selected_tools: The server's tools for this run, as in ``POST /chat``.
        detached: Whether the run goes on when its client leaves; it does unless this is ``false``.
        when_busy: What to do if a run of the thread runs: ``refuse``, ``queue`` or ``interrupt``.
    """

    model: str | None = None
    think: Think | None = None
    selected_tools: Annotated[Sequence[str], FEW] | None = None
    detached: bool | None = None
    when_busy: WhenBusy | None = None


class RunIn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The input of a run: AG-UI's ``RunAgentInput``.

    Attributes:
        thread_id: The session: its id, or a name chosen by the client.
        run_id: The client's id of the run.
        messages: The client's copy of the conversation. Only the messages at its end that the
            session does not have yet are read.
        tools: Tools that the client runs.
        context: Context for the model in this run.
        forwarded_props: See ``PropsIn``.
        resume: Answers to the pending interrupts of the thread.
        state: Not used.
        protocol_version: The client's AG-UI version; this server implements 1.0.
        parent_run_id: Not used.
    """

    thread_id: str
    run_id: _RunId
    messages: Sequence[MessageIn]
    tools: Annotated[Sequence[ToolIn], FEW] | None = None
    context: Annotated[Sequence[ContextIn], FEW] | None = None
    forwarded_props: Any = None
    resume: Annotated[Sequence[ResumeIn], FEW] | None = None
    state: Any = None
    protocol_version: str | None = None
    parent_run_id: str | None = None
