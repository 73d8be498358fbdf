"""What a turn needs to know before it starts: model, thinking, window, tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chat.context.window import Decision, decide, estimate
from chat.errors import NothingToContinue
from chat.history import continue_from
from chat.job import TurnJob
from models_app.catalogue import ModelCatalogue
from models_app.errors import ThinkingNotSupported
from models_app.language_model import ModelInfo, Think
from sessions_app.identity import new_message_id, utc_now
from sessions_app.messages import AssistantMessage, Message, ToolSpec, UserMessage
from sessions_app.session import Session
from tools_app.errors import ToolNotFound
from tools_app.toolset import Toolset


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What a client asked for.

    Attributes:
        message: What the user says; None continues from the history.
        think: Whether and how hard to reason; None was not said.
        selected_tools: The tools of this turn; None leaves it to the session's settings.
        detached: Whether the turn goes on when its client leaves.
    """

    message: str | None = None
    think: Think | None = None
    selected_tools: Sequence[str] | None = None
    detached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPreparer:
    """Turns a request and a claimed session into a job for the engine."""

    models: ModelCatalogue
    toolset: Toolset
    max_rounds: int
    dynamic_window: bool

    async def list_tools(self, selection: ToolSelection) -> ToolListing:
        """Ask which of these tools there are."""
        return await self.toolset.listing(selection)

    async def describe(self, model: str) -> ModelInfo | None:
        """Ask what is known of a model; None while its provider can't be asked.

        Such a provider says so itself when the model is asked, after the user's message is saved.

        Raises:
            ModelNotFound: The model does not exist.
        """
        return await self.models.look_up(model)

    def prepare(
        self,
        turn_id: str,
        session: Session,
        request: TurnRequest,
        *,
        tools: Sequence[ToolSpec],
        described: Mapping[str, ModelInfo | None],
    ) -> TurnJob:
        """Decide everything that must be known before the model is asked. Takes no time.

        Args:
            turn_id: The turn.
            session: The session, claimed or about to be.
            request: What the client asked for.
            tools: Every tool there is.
            described: What ``describe`` told of models, for this request.

        Raises:
            ModelNotDescribed: Nothing is known of the session's model yet: ask, and try again.
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
        info = self.models.recall(model)
        if info is None:
            if model not in described:
                raise ModelNotDescribed(model)
            info = described[model]
        said = request.message if continuation.append else None
        return TurnJob(
            turn_id=turn_id,
            session=session,
            continuation=continuation,
            message=_user_message(said) if said is not None else None,
            language_model=language_model,
            model=name,
            think=_thinking(request.think, info, model),
            window=self._window(session, info, request.message or ""),
            tools=_chosen(tools, session, request.selected_tools),
            max_rounds=self.max_rounds,
        )

    def _window(self, session: Session, info: ModelInfo | None, message: str) -> Decision:
        config = session.window
        return decide(
            dynamic_enabled=self.dynamic_window and config.dynamic_enabled,
            manual_override=config.manual_override,
            current_window=config.current_window,
            model_changed=_model_changed(session),
            max_context=info.context_length if info else None,
            usage_tokens=_usage(session.messages, message),
        )


class ModelNotDescribed(Exception):
    """Nothing is known of a model yet; it must be asked about, outside of any lock."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.model = model


def _user_message(content: str) -> UserMessage:
    return UserMessage(content=content, message_id=new_message_id(), timestamp=utc_now())


def _chosen(
    tools: Sequence[ToolSpec], session: Session, selected: Sequence[str] | None
) -> Sequence[ToolSpec]:
    known = {spec.name: spec for spec in tools}
    if selected is not None:
        for name in selected:
            if name not in known:
                raise ToolNotFound(name)
        return [known[name] for name in selected]
    settings = session.metadata.tool_settings
    return [known[name] for name in settings.tools if name in known] if settings else ()


def _thinking(asked: Think | None, info: ModelInfo | None, model: str) -> Think | None:
    if info is None:
        return asked
    if info.can_think:
        return False if asked is None else asked
    if asked:
        raise ThinkingNotSupported(
            f"The model {model!r} can't think. Leave out `think`, or choose a thinking model.",
            field="think",
            model=model,
        )
    return None


def _model_changed(session: Session) -> bool:
    """Whether another model gave the last answer."""
    for message in reversed(session.messages):
        if isinstance(message, AssistantMessage):
            return message.model != session.metadata.model
    return False


def _usage(messages: Sequence[Message], message: str) -> int:
    """Estimate the tokens of the next request: what was counted last, and what came after it."""
    for index in range(len(messages) - 1, -1, -1):
        counted = messages[index]
        if isinstance(counted, AssistantMessage) and counted.prompt_eval_count is not None:
            later = [later.content for later in messages[index + 1 :]]
            tokens = counted.prompt_eval_count + (counted.eval_count or 0)
            return tokens + estimate([*later, message])
    return estimate([*(earlier.content for earlier in messages), message])
