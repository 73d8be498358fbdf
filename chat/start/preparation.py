"""Prepares turns: looks up model and tools, then makes the job that the engine runs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from chat.context.attachment_costs import rules_for
from chat.context.compaction import ContextRules, plan_with
from chat.context.history import Continuation, continue_from, continue_with
from chat.context.plan import ContextPlan
from chat.context.strategy import DEFAULT_STRATEGY, strategy_of
from chat.errors import HistoryChanged, NothingToContinue
from chat.start.accepted_files import require_room, require_takes
from chat.start.offered_tools import first_call, offered_tools, with_own_tools
from chat.start.turn_request import TurnRequest
from chat.start.windows import ContextWindows
from chat.summaries.prompt import bare_name
from chat.turn.attached_files import AttachedFiles
from chat.turn.delegation import Delegate
from chat.turn.job import LoadedLookUp, ToolLimits, TurnJob
from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelNotFound, ThinkingNotSupported
from models_app.language_model import ModelInfo, Think
from sessions_app.edits import rewind
from sessions_app.errors import MochiError, ValidationFailed
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    Attachment,
    Message,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from sessions_app.session import Session
from sessions_app.session_settings import change_settings
from tools_app.available_tools import NO_AVAILABLE_TOOLS, AvailableTools, choose_tools, selection_of
from tools_app.toolset import ToolListing, ToolSelection, Toolset

ANSWER_IN_JSON = (
    "Answer with JSON and nothing else, without a code block. It must fit this JSON schema:"
)
AFTER_TOOLS = "Call the tools that you need first. "

Prepare = Callable[[str, Session], TurnJob]
"""Makes the job of a turn from its id and the claimed session. Pure; may be called again.

Raises an error to refuse the turn, and ``SettingsChanged`` if the lookup must be repeated."""


class Preparation(Protocol):
    """Prepares one turn: first does all lookups, then decides without I/O."""

    def must_ask(self, session: Session) -> bool:
        """Return whether ``look_up`` has to ask a provider, which may take long. No I/O."""
        ...

    async def look_up(self, session: Session) -> Prepare:
        """Look up what a turn on this session needs; the session may be outdated."""
        ...


class TurnFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that were looked up for a turn before its session is claimed.

    Attributes:
        model: The session's model.
        info: The facts about the model; None if its provider can't be reached.
        selection: The tools that were looked up, if any.
        listing: The result of that.
        loaded: The look-up of the model's loaded window, which the turn waits for.
    """

    model: str
    info: ModelInfo | None
    selection: ToolSelection | None = None
    listing: ToolListing | None = None
    loaded: LoadedLookUp | None = None


class SettingsChanged(Exception):
    """Raised if the session has changed, so that the facts must be looked up again."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.session_id)
        self.session = session


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPreparer:
    """Prepares turns: models, windows, tools, and the rules for fitting requests."""

    models: ModelCatalogue
    toolset: Toolset
    tool_limits: ToolLimits
    windows: ContextWindows
    delegate: Delegate | None = None
    context_strategy: str = DEFAULT_STRATEGY
    read_attachment: Callable[[str], bytes] | None = None
    renew_attachments: Callable[[Collection[str]], None] | None = None

    async def available_tools_of(
        self, session: Session, info: ModelInfo | None = None
    ) -> AvailableTools:
        """Return the tools and agents of a session's next request, if that selects none itself."""
        tools = NO_AVAILABLE_TOOLS
        if (selection := selection_of(session.metadata, None, ())) is not None:
            tools = choose_tools(await self.list_tools(selection), session.metadata, None, ())
        return with_own_tools(tools, session, info, self.tool_limits.tokens)

    async def list_tools(self, selection: ToolSelection) -> ToolListing:
        """Return the existing ones of the selected tools and agents."""
        listing = await self.toolset.listing(selection)
        if self.delegate is None or not selection.agents:
            return listing
        delegated = await self.delegate.listing(selection.agents)
        return msgspec.structs.replace(listing, tools={**listing.tools, **delegated.tools})

    def attached(self, info: ModelInfo | None) -> AttachedFiles | None:
        """Return the reader of attachments for a model; an unknown model gets all of them."""
        if self.read_attachment is None:
            return None
        return AttachedFiles(self.read_attachment, info.takes if info else lambda _: True)

    def rules(self, session: Session, info: ModelInfo | None) -> ContextRules:
        """Return the rules for fitting the requests of a turn on this session."""
        return ContextRules(
            strategy=strategy_of(session.metadata.context_strategy, self.context_strategy),
            max_context=info.context_length if info else None,
            context_limit=info.context_limit if info else None,
            can_think=info.can_think if info else False,
            default_prompt=info.system_prompt if info else None,
            attachments=rules_for(info),
        )


@dataclass(frozen=True, slots=True)
class ChatPreparation:
    """Prepares the turn of one chat request (a ``Preparation``).

    Attributes:
        preparer: Prepares all turns.
        request: The client's request.
        model: The model that the client names; must be the session's.
    """

    preparer: TurnPreparer
    request: TurnRequest
    model: str | None = None

    def must_ask(self, session: Session) -> bool:
        """Return whether a provider must be asked about the session's model."""
        session = self._with_settings(session)
        try:
            language_model, name = self.preparer.models.resolve(session.metadata.model)
        except ModelNotFound:
            return True
        return language_model.recall(name) is None

    async def look_up(self, session: Session) -> Prepare:
        """Look up the session's model and tools; return the function that makes the job with them.

        A provider that can't be reached causes an error only later, at the model call, after the
        user's message is saved.

        Raises:
            ModelNotFound: The model does not exist.
            ValidationFailed: The client names another one.
        """
        if self.model is not None:
            require_model(session, self.model)
        try:
            session = self._as_asked(session)
            continuation = self._continuation(session)
        except MochiError:  # as the session is claimed, it may be another one
            continuation = None
        if continuation is None:
            return partial(self._prepare, None)
        model = session.metadata.model
        language_model, name = self.preparer.models.resolve(model)
        loaded = self.preparer.windows.look_up_loaded(session, model)
        info = language_model.recall(name) or await self.preparer.models.look_up(model)
        selection = self._selection(session, continuation)
        listing = None if selection is None else await self.preparer.list_tools(selection)
        facts = TurnFacts(
            model=model,
            info=info,
            selection=selection,
            listing=listing,
            loaded=loaded,
        )
        return partial(self._prepare, facts)

    def _prepare(self, facts: TurnFacts | None, turn_id: str, session: Session) -> TurnJob:
        """Decide everything that must be known before the model is asked. No I/O.

        Args:
            facts: The looked-up facts; None if the session could not be continued then.
            turn_id: The turn.
            session: The claimed session.

        Raises:
            SettingsChanged: The facts are not about this session.
            NothingToContinue: There is no new message, and none in the history to answer.
            ThinkingNotSupported: The request wants thinking, which the model does not support.
            ToolNotFound: A selected tool does not exist.
            ToolsNotSupported: Tools are offered to a model that can't call them.
        """
        session = self._as_asked(session)
        continuation = self._continuation(session)
        if continuation is None:
            raise NothingToContinue(session.session_id)
        needs = (session.metadata.model, self._selection(session, continuation))
        if facts is None or (facts.model, facts.selection) != needs:
            raise SettingsChanged(session)
        return self._job(facts, turn_id, session, continuation)

    def _job(
        self, facts: TurnFacts, turn_id: str, session: Session, continuation: Continuation
    ) -> TurnJob:
        """Make the job of a turn; raises as ``_prepare``, except ``SettingsChanged``."""
        request, preparer, model = self.request, self.preparer, session.metadata.model
        language_model, name = preparer.models.resolve(model)
        messages = self._said(continuation, facts.info)
        tools = offered_tools(
            request,
            facts.listing,
            session,
            facts.info,
            continuation.open_calls,
            most_tokens=preparer.tool_limits.tokens,
        )
        rules = preparer.rules(session, facts.info)
        rules = msgspec.structs.replace(rules, instructions=_instructions(request, tools))
        plan = plan_turn(rules, session, continuation, messages, tools.specs)
        return TurnJob(
            turn_id=turn_id,
            session=session,
            continuation=continuation,
            messages=messages,
            language_model=language_model,
            model=name,
            dialect=request.dialect,
            options={**(session.metadata.options or {}), **request.options},
            answer_schema=request.answer_schema,
            requires_fit=request.requires_fit,
            first_call=first_call(request.tool_choice, facts.info),
            think=_thinking(request.think, facts.info, model),
            window=preparer.windows.choose(session, facts.info, plan.estimate.tokens),
            available_tools=tools,
            tool_limits=preparer.tool_limits.for_model(model),
            rules=rules,
            plan=plan,
            attached=preparer.attached(facts.info),
            loaded=facts.loaded,
            rewinds=request.rewind is not None,
            decisions=request.decisions,
        )

    def _continuation(self, session: Session) -> Continuation | None:
        """Return how the turn continues the session; None if there is nothing to answer.

        Raises:
            MissingToolResult: A call of a client's tool has no result.
            ValidationFailed: A result has no call.
        """
        request = self.request
        if request.message_id is not None:
            return Continuation(keep=len(session.messages), append=True)
        if request.messages:
            return continue_with(session.messages, request.messages)
        client_tools = [tool.name for tool in request.client_tools]
        return continue_from(
            session.messages,
            request.message,
            attachments=request.attachments,
            client_tools=client_tools,
        )

    def _said(self, continuation: Continuation, info: ModelInfo | None) -> Sequence[Message]:
        """Return the new messages; ``ValidationFailed`` if the model can't take a file of these."""
        said: Sequence[Message] = continuation.said
        request = self.request
        if continuation.append and request.message is not None:
            said = [user_message(request.message, request.attachments, request.message_id)]
        to = request.rewind
        checked = said if to is None else [*said, user_message("", to.attachments or ())]
        require_takes(info, checked, brought=request.messages)
        require_room(info, checked, brought=request.messages)
        return [*said, *map(given_up_result, continuation.given_up)]

    def _with_settings(self, session: Session) -> Session:
        """Return the session with the settings of the request."""
        given = self.request.settings
        return change_settings(session, given, now=utc_now()) if given else session

    def _as_asked(self, session: Session) -> Session:
        """Return the session as the turn continues it: with its settings, and rewound.

        Raises:
            HistoryChanged: It has messages that the request does not expect.
            MessageChanged: The message that it is rewound to is not there any more.
        """
        if self.request.expects not in (None, session.last_message_id):
            raise HistoryChanged
        session, to = self._with_settings(session), self.request.rewind
        return session if to is None else rewind(session, to, now=utc_now())

    def _selection(self, session: Session, continuation: Continuation) -> ToolSelection | None:
        open_calls = continuation.open_calls
        return selection_of(session.metadata, self.request.selected_tools, open_calls)


def plan_turn(
    rules: ContextRules,
    session: Session,
    continuation: Continuation,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
) -> ContextPlan:
    """Plan the first request of a turn: the kept history and the new messages."""
    history = session.messages
    if continuation.keep < len(history):
        history = history[: continuation.keep]
    now = messages[-1].timestamp if messages else utc_now()
    history = (*history, *messages) if messages else history
    return plan_with(rules, history, session=session, tools=tools, now=now)


def user_message(
    content: str, attachments: tuple[Attachment, ...] = (), message_id: str | None = None
) -> UserMessage:
    """Return a new user message; the user of an agent is the model that calls it."""
    return UserMessage(
        content=content,
        attachments=attachments,
        message_id=message_id or new_message_id(),
        timestamp=utc_now(),
    )


def given_up_result(call: ToolCall) -> ToolMessage:
    """Return the result of a call that its client should have run and never answered."""
    return ToolMessage(
        content=INTERRUPTED_RESULT,
        message_id=new_message_id(),
        timestamp=utc_now(),
        tool_name=call.name,
        tool_call_id=call.id,
        failed=True,
    )


def _instructions(request: TurnRequest, tools: AvailableTools) -> str | None:
    """Return the system text of this turn, which describes a schema of answers, too."""
    texts = [text for text in (tools.system_text, request.instructions) if text]
    if request.answer_schema is not None:
        schema = msgspec.json.encode(request.answer_schema, enc_hook=dict).decode()
        texts.append(f"{AFTER_TOOLS if tools.specs else ''}{ANSWER_IN_JSON}\n{schema}")
    return "\n\n".join(texts) or None


def require_model(session: Session, named: str) -> None:
    """Refuse a request that names another model than its session, as it would be ignored."""
    model = session.metadata.model
    if bare_name(named) != bare_name(model):
        raise ValidationFailed(
            f"Session {session.session_id} is answered by '{model}', not by '{named}'. Change its "
            f"model with PATCH /api/v1/sessions/{session.session_id}, leave out `model`, or leave "
            "out `session_id` for a new session.",
            field="model",
            session_model=model,
        )


def _thinking(think: Think | None, info: ModelInfo | None, model: str) -> Think | None:
    if info is None:
        return think
    if info.can_think:
        return info.default_think if think is None else think
    if think:
        raise ThinkingNotSupported(
            f"The model {model!r} can't think. Leave out `think`, or choose a thinking model.",
            field="think",
            model=model,
        )
    return None
