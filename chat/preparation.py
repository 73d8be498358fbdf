"""What a turn needs to know before it starts: model, thinking, window, tools."""

from collections.abc import Sequence
from dataclasses import dataclass

from chat.context.window import Decision, decide, estimate
from chat.engine import TurnJob
from chat.errors import NothingToContinue
from chat.history import continue_from
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

    async def prepare(self, turn_id: str, session: Session, request: TurnRequest) -> TurnJob:
        """Decide everything that must be known before the model is asked.

        Raises:
            NothingToContinue: There is no message, and none in the history to answer.
            ModelNotFound: The session's model does not exist.
            ThinkingNotSupported: Thinking was asked of a model that can't think.
            ToolNotFound: A selected tool does not exist.
        """
        continuation = continue_from(session.messages, request.message)
        if continuation is None:
            raise NothingToContinue(session.session_id)
        language_model, name = self.models.resolve(session.metadata.model)
        # A provider that can't be asked says so itself, after the user's message is on disk.
        info = await self.models.look_up(session.metadata.model)
        message = None
        if request.message is not None and continuation.append:
            message = UserMessage(
                content=request.message, message_id=new_message_id(), timestamp=utc_now()
            )
        return TurnJob(
            turn_id=turn_id,
            session=session,
            continuation=continuation,
            message=message,
            language_model=language_model,
            model=name,
            think=_thinking(request.think, info, session.metadata.model),
            window=self._window(session, info, request.message or ""),
            tools=await self._tools(session, request.selected_tools),
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

    async def _tools(self, session: Session, selected: Sequence[str] | None) -> Sequence[ToolSpec]:
        known = {spec.name: spec for spec in await self.toolset.list_tools()}
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
