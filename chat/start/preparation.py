"""What a turn needs to know before it starts: model, thinking, window, tools."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from chat.context.compaction import ContextRules, plan_with
from chat.context.history import Continuation, continue_from
from chat.context.plan import ContextPlan
from chat.context.strategy import DEFAULT_STRATEGY, strategy_of
from chat.context.window import Decision, decide, model_changed
from chat.errors import NothingToContinue
from chat.turn.delegation import Delegate
from chat.turn.job import TurnJob
from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelNotFound, ThinkingNotSupported
from models_app.language_model import ModelInfo, Think
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import ToolSpec, UserMessage
from sessions_app.session import Session
from tools_app.available_tools import NO_AVAILABLE_TOOLS, AvailableTools, choose_tools, selection_of
from tools_app.toolset import ToolListing, ToolSelection, Toolset


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What a client asked for.

    Attributes:
        message: What the user says; None continues from the history.
        think: Whether and how hard to reason; None was not said.
        selected_tools: The tools of this turn; None leaves it to the session's settings.
        detached: Whether the turn goes on when its client leaves.
        interactive: Whether the client sees events, and so can be asked to approve a call.
    """

    message: str | None = None
    think: Think | None = None
    selected_tools: Sequence[str] | None = None
    detached: bool = False
    interactive: bool = True


@dataclass(slots=True)
class Known:
    """What was found out for a request while its session was not locked.

    Attributes:
        models: What is known of models; None of one whose provider can't be asked now.
        selection: The tools that were asked about.
        listing: What there is of them.
    """

    models: dict[str, ModelInfo | None] = field(default_factory=dict)
    selection: ToolSelection | None = None
    listing: ToolListing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPreparer:
    """Turns a request and a claimed session into a job for the engine."""

    models: ModelCatalogue
    toolset: Toolset
    max_rounds: int
    dynamic_window: bool
    delegate: Delegate | None = None
    context_strategy: str = DEFAULT_STRATEGY

    async def find_out(self, missing: "NotKnown", known: Known) -> None:
        """Find out what ``prepare`` missed.

        A provider that can't be asked about its model says so itself when the model is asked,
        after the user's message is saved.

        Raises:
            ModelNotFound: The model does not exist.
        """
        if missing.model is not None:
            known.models[missing.model] = await self.models.look_up(missing.model)
        if missing.selection is not None:
            known.selection = missing.selection
            known.listing = await self._list(missing.selection)

    def prepare(
        self, request: TurnRequest, turn_id: str, session: Session, known: Known
    ) -> TurnJob:
        """Decide everything that must be known before the model is asked. Takes no time.

        Args:
            request: What the client asked for.
            turn_id: The turn.
            session: The session, claimed or about to be.
            known: What ``find_out`` has found out for this request.

        Raises:
            NotKnown: Something must be found out first: do, and try again.
            NothingToContinue: There is no message, and none in the history to answer.
            ModelNotFound: The session's model does not exist.
            ThinkingNotSupported: Thinking was asked of a model that can't think.
            ToolNotFound: A selected tool does not exist.
        """
        continuation = continue_from(session.messages, request.message)
        if continuation is None:
            raise NothingToContinue(session.session_id)
        model = session.metadata.model
        language_model, name = self.models.resolve(model)
        info = language_model.recall(name)
        if info is None:
            if model not in known.models:
                raise NotKnown(model=model)
            info = known.models[model]
        said = request.message if continuation.append else None
        message = user_message(said) if said is not None else None
        offered = _offered(session, request, continuation, known)
        rules = self.rules(session, info)
        plan = plan_turn(rules, session, continuation, message, offered.specs)
        return TurnJob(
            turn_id=turn_id,
            session=session,
            continuation=continuation,
            message=message,
            language_model=language_model,
            model=name,
            think=_thinking(request.think, info, model),
            window=self.window(session, info, plan.estimate.tokens),
            available_tools=offered,
            max_rounds=self.max_rounds,
            rules=rules,
            plan=plan,
        )

    async def available_tools_of(self, session: Session) -> AvailableTools:
        """Return what a session's next request would offer, agents too, if it selects nothing."""
        selection = selection_of(session.metadata, None, ())
        if selection is None:
            return NO_AVAILABLE_TOOLS
        return choose_tools(await self._list(selection), session.metadata, None, ())

    async def _list(self, selection: ToolSelection) -> ToolListing:
        listing = await self.toolset.listing(selection)
        if self.delegate is None or not selection.agents:
            return listing
        delegated = await self.delegate.listing(selection.agents)
        return msgspec.structs.replace(listing, tools={**listing.tools, **delegated.tools})

    async def usable_model(
        self, wanted: str | None, otherwise: str
    ) -> tuple[str, ModelInfo | None]:
        """Return the wanted model if there is one and it exists, else the other one.

        Raises:
            ModelNotFound: The other one does not exist either.
        """
        if wanted is not None:
            with suppress(ModelNotFound):
                return wanted, await self.models.look_up(wanted)
        return otherwise, await self.models.look_up(otherwise)

    def window(self, session: Session, info: ModelInfo | None, tokens: int) -> Decision:
        """Decide the context window of the next request, which takes so many tokens."""
        config = session.window
        takes_window = info is None or info.takes_window
        return decide(
            dynamic_enabled=self.dynamic_window and config.dynamic_enabled and takes_window,
            manual_override=config.manual_override,
            current_window=config.current_window,
            model_changed=model_changed(session),
            max_context=info.context_length if info else None,
            usage_tokens=tokens,
        )

    def rules(self, session: Session, info: ModelInfo | None) -> ContextRules:
        """Return how the requests of a turn on this session are made to fit."""
        return ContextRules(
            strategy=strategy_of(session.metadata.context_strategy, self.context_strategy),
            max_context=info.context_length if info else None,
            context_limit=info.context_limit if info else None,
            can_think=info.can_think if info else False,
        )


class NotKnown(Exception):
    """Something must be found out about the world, outside of any lock."""

    def __init__(self, *, model: str | None = None, selection: ToolSelection | None = None) -> None:
        super().__init__(model, selection)
        self.model = model
        self.selection = selection


def plan_turn(
    rules: ContextRules,
    session: Session,
    continuation: Continuation,
    message: UserMessage | None,
    tools: Sequence[ToolSpec],
) -> ContextPlan:
    """Plan the first request of a turn: the history that it keeps, and what is said now."""
    history = session.messages
    if continuation.keep < len(history):
        history = history[: continuation.keep]
    if message is None:
        return plan_with(rules, history, session=session, tools=tools, now=utc_now())
    history = (*history, message)
    return plan_with(rules, history, session=session, tools=tools, now=message.timestamp)


def user_message(content: str) -> UserMessage:
    """Return a new message with what a person, or whoever calls an agent, says."""
    return UserMessage(content=content, message_id=new_message_id(), timestamp=utc_now())


def _offered(
    session: Session, request: TurnRequest, continuation: Continuation, known: Known
) -> AvailableTools:
    selected, open_calls = request.selected_tools, continuation.open_calls
    selection = selection_of(session.metadata, selected, open_calls)
    if selection is None:
        return NO_AVAILABLE_TOOLS
    if known.listing is None or known.selection != selection:
        raise NotKnown(selection=selection)
    return choose_tools(known.listing, session.metadata, selected, open_calls)


def _thinking(asked: Think | None, info: ModelInfo | None, model: str) -> Think | None:
    if info is None:
        return asked
    if info.can_think:
        return info.default_think if asked is None else asked
    if asked:
        raise ThinkingNotSupported(
            f"The model {model!r} can't think. Leave out `think`, or choose a thinking model.",
            field="think",
            model=model,
        )
    return None
