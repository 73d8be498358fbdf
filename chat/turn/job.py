"""Defines the job of a turn: everything its engine needs before it starts, as a value."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from chat.approvals.confirmation import Decision
from chat.context.compaction import ContextRules, RequestCompactor
from chat.context.history import Continuation
from chat.context.plan import ContextPlan
from chat.context.window import WindowChoice, follow_loaded
from chat.stream.attached_file import AttachedFile
from chat.stream.events import TurnResumed, TurnStarted
from chat.turn.attached_files import AttachedFiles
from chat.turn.observer import Dialect
from chat.turn.phases import PhasePrompts
from chat.turn.resumption import Resumption
from models_app.language_model import LanguageModel, Purpose, Think
from models_app.window_sizes import LoadedWindow
from sessions_app.messages import NO_EXTRA, Message, UserMessage
from sessions_app.session import Session, agent_named
from tools_app.available_tools import NO_AVAILABLE_TOOLS, AvailableTools

FirstCall = Literal["optional", "asked_for", "forced"]
"""The ways to a call of a tool in a turn's first answer: by the model's wish, prompt, provider."""


LoadedLookUp = asyncio.Task[LoadedWindow | None]
"""Looks up the window that a model is loaded with, while the session is claimed; never raises."""

ROUNDS_OF_AGENTS = 2
"""The rounds of a session answered by an agent: one for the call, one for its result."""


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds how often the model of a turn may call tools.

    Attributes:
        rounds: The maximum number of model calls.
        repeats: The maximum number of rounds with the same call and result; 0 for any number.
        tokens: The maximum tokens of schemas that are sent before the model has found them; None
            for a share of its limit; 0 for any number.
    """

    rounds: int = 25
    repeats: int = 5
    tokens: int | None = None

    def for_model(self, model: str) -> "ToolLimits":
        """Return the limits of a session with this model, which may be an agent."""
        if agent_named(model) is None or self.rounds >= ROUNDS_OF_AGENTS:
            return self
        return msgspec.structs.replace(self, rounds=ROUNDS_OF_AGENTS)


class TurnJob(msgspec.Struct, frozen=True, kw_only=True):
    """Holds everything that a turn needs before it starts.

    Attributes:
        turn_id: The turn.
        session: The claimed session as it was when the turn began.
        continuation: The change of the history before the turn.
        messages: The messages to append, if any.
        language_model: The model that answers.
        model: The model's name at its provider.
        purpose: The purpose of the model calls.
        agent: The agent that runs the turn; None for a user's turn.
        dialect: The protocol of the request.
        options: Sampling options, by Ollama's names.
        think: Whether and how hard to reason; None leaves it to the provider.
        answer_schema: A JSON schema that the answers must match.
        requires_fit: Whether an answer that does not, after corrections, is an error.
        first_call: Whether the first answer must call a tool, and how the model is told.
        window: The context window to ask for, as far as it does not depend on the loaded one.
        loaded: The look-up of that.
        available_tools: The tools that the model may call.
        tool_limits: How often the model may call tools.
        phases: The prompts of a turn that plans first; None in a conversation.
        follows_settings: Whether the session's current policies apply; an agent's session has none.
        rules: The rules for fitting requests into the context window.
        plan: The plan of the first request; made in the thread that claims the session.
        attached: Reads images and files for the model; None without any.
        is_saved: Whether the session is kept after the turn.
        rewinds: Whether messages of the session were removed for it.
        decisions: What its request decides about calls that are open.
        call_ids: The ids of the session's calls, none of which a new call may have.
        resumed: How it goes on, if another process began it.
    """

    turn_id: str
    session: Session
    continuation: Continuation
    messages: Sequence[Message] = ()
    language_model: LanguageModel
    model: str
    purpose: Purpose = "chat"
    agent: str | None = None
    dialect: Dialect = "native"
    options: Mapping[str, Any] = NO_EXTRA
    think: Think | None
    answer_schema: Mapping[str, Any] | None = None
    requires_fit: bool = False
    first_call: FirstCall = "optional"
    window: WindowChoice
    loaded: LoadedLookUp | None = None
    available_tools: AvailableTools = NO_AVAILABLE_TOOLS
    tool_limits: ToolLimits = ToolLimits()
    phases: PhasePrompts | None = None
    follows_settings: bool = True
    rules: ContextRules = ContextRules()
    plan: ContextPlan | None = None
    attached: AttachedFiles | None = None
    is_saved: bool = True
    rewinds: bool = False
    decisions: Sequence[Decision] = ()
    call_ids: Collection[str] = ()
    resumed: Resumption | None = None

    def first_event(self, message_id: str) -> TurnStarted | TurnResumed:
        """Return the first event of its stream in this process; the first answer has this id."""
        resumed = self.resumed
        if resumed is not None and resumed.last_number:
            return TurnResumed(
                turn_id=self.turn_id,
                session_id=self.session.session_id,
                attempt=resumed.attempt,
                reason=resumed.reason,
                keeps="results" if resumed.begun is None else "text",
                message_id=message_id if resumed.begun is None else resumed.begun.message_id,
                discarded=[resumed.discarded_id] if resumed.discarded_id else UNSET,
            )
        said = self.messages[-1] if self.messages else None
        files = said.attachments if isinstance(said, UserMessage) else ()
        answered_id, index = self._answered
        return TurnStarted(
            turn_id=self.turn_id,
            session_id=self.session.session_id,
            model=self.session.metadata.model,
            attachments=AttachedFile.of(files) if files else UNSET,
            message_id=message_id,
            user_message_id=answered_id,
            user_message_index=index,
        )

    @property
    def asked_at(self) -> str:
        """When its open calls were made in this session; empty if maybe in another one."""
        return "" if self.session.metadata.is_copy else self.continuation.asked_at

    @property
    def _answered(self) -> tuple[str | UnsetType, int | UnsetType]:
        """Return the id and index of the answered user message; ``UNSET`` for missing ones."""
        history, keep = self.session.messages, self.continuation.keep
        if not self.messages:
            last = history[keep - 1] if 0 < keep <= len(history) else None
            return (last.message_id, keep - 1) if isinstance(last, UserMessage) else (UNSET, UNSET)
        said = self.messages[-1]
        if not isinstance(said, UserMessage):
            return UNSET, UNSET
        for index in range(len(history) - 1, -1, -1):
            if history[index].message_id == said.message_id:
                return said.message_id, index
        return said.message_id, UNSET

    def window_with(self, loaded: LoadedWindow | None) -> WindowChoice:
        """Return the context window to ask for, now that the loaded one was looked up."""
        return follow_loaded(
            self.window,
            loaded,
            max_context=self.rules.max_context,
            usage_tokens=self.plan.estimate.tokens if self.plan is not None else 0,
        )

    def compactor(self) -> RequestCompactor:
        """Return the compactor of this turn's requests."""
        return RequestCompactor(
            self.rules,
            language_model=self.language_model,
            model=self.model,
            tools=self.available_tools.specs,
            keep_alive=self.options.get("keep_alive"),
            # Open calls run first, and the first request has their results.
            first=None if self.continuation.open_calls else self.plan,
        )
