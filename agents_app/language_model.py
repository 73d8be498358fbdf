"""Implements ``LanguageModel`` for agents, which answer as models do (docs/decisions/0063)."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

import msgspec

from agents_app.agent import AgentDefinition
from agents_app.catalogue import AgentCatalogue
from agents_app.conversation import (
    AgentOutput,
    CallResult,
    Conversation,
    read_conversation,
    said_since_instruction,
)
from agents_app.errors import AgentNotFound, AgentSessionNotFound, AgentStopped
from agents_app.model_choice import ModelChoice
from agents_app.sessions import AgentSessions
from models_app.errors import ModelNotFound
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import (
    CallDelta,
    Delta,
    Finished,
    ModelInfo,
    ModelRequest,
    SchemaLeftOut,
    TextDelta,
    ThinkingDelta,
)
from sessions_app.errors import SessionError, StorageError
from sessions_app.messages import ToolCall
from sessions_app.session import AGENT_PREFIX
from sessions_app.suggestions import suggestion
from tools_app.toolset import AGENT_TOOL

CACHE_SECONDS = 60.0
"""Seconds for which an agent counts as usable; each request looks at it anew."""

PROVIDER = "agent"
NOTHING_SAID = said_since_instruction(())
UNREADABLE = (AgentSessionNotFound, SessionError, StorageError)


class AgentLanguageModel:
    """The models of all agents; implements ``LanguageModel``, agents' names being the models'.

    A request is answered in two steps. The first answer is a call of the agent with the user's
    message; the second, once the call's result is in the history, is the agent's output. Everything
    in between is an ordinary turn: approvals, journals, events, cancelling.

    Args:
        agents: The agents.
        sessions: Their sessions.
        choice: Chooses the model that an agent runs with, which answers what no agent is asked:
            summaries.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        agents: AgentCatalogue,
        sessions: AgentSessions,
        choice: ModelChoice,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agents = agents
        self._sessions = sessions
        self._choice = choice
        self._known: ExpiringCache[ModelInfo] = ExpiringCache(CACHE_SECONDS, clock=clock)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta], None]:
        """Yield a call of the agent, or, after its result, the agent's output.

        An output that has to fit a schema is the agent's own words (``SchemaLeftOut``); without
        tools, its model alone fits it.

        Raises:
            ModelNotFound: There is no such agent, or it has no model.
            AgentInvalid: Something is wrong with it.
            AgentStopped: Its run was interrupted; its output was yielded before.
            ModelError: A subclass, of its model, for what no agent is asked.
        """
        agent = await self._usable(request.model)
        if request.purpose != "chat" or (request.answer_schema is not None and not request.tools):
            async with aclosing(self._stream_plainly(agent, request)) as batches:
                async for batch in batches:
                    yield batch
            return
        if request.answer_schema is not None:
            yield [SchemaLeftOut()]
        conversation = read_conversation(request.messages)
        if conversation.result is None:
            call = await self._call(agent, conversation)
            yield [CallDelta(call), Finished("stop")]
            return
        said, failure = await self._output(agent, conversation.result)
        if said.plan and said.text:
            yield [ThinkingDelta(said.plan)]
        # Also what broke off: without a text of its own the failed answer could not be retried.
        yield [TextDelta(said.text or said.plan or failure or "")]
        if failure is not None:
            raise AgentStopped(agent.name, failure)
        yield [said.end]

    def recall(self, model: str) -> ModelInfo | None:
        """Return the cached result of ``describe``, or None. Thread-safe."""
        return self._known.get(model)

    async def describe(self, model: str) -> ModelInfo:
        """Return the metadata of an agent as a model: it chats, and accepts no other tools.

        Raises:
            ModelNotFound: There is no such agent, or no model that it could run with.
            AgentInvalid: Something is wrong with it.
        """
        agent = await self._usable(model)
        _, chosen = await self._choice.choose(agent, f"{AGENT_PREFIX}{model}")
        info = _info(agent, chosen, sees=chosen is None or chosen.can_see)
        self._known.set(model, info)
        return info

    async def list_models(self) -> list[ModelInfo]:
        """Return the valid agents, by name, including whether they accept images, if known."""
        usable = [agent for agent in (await self._agents.list()).values() if agent.valid]
        return [self.recall(agent.name) or _info(agent, None, sees=False) for agent in usable]

    async def _usable(self, name: str) -> AgentDefinition:
        try:
            return await self._agents.usable(name)
        except AgentNotFound:
            model = f"{AGENT_PREFIX}{name}"
            hint = suggestion(name, await self._agents.names())
            raise ModelNotFound(
                f"Model '{model}' not found: there is no agent named '{name}'"
                + (hint.replace("mean ", f"mean {AGENT_PREFIX}") or "."),
                provider=PROVIDER,
                model=model,
            ) from None

    async def _stream_plainly(
        self, agent: AgentDefinition, request: ModelRequest
    ) -> AsyncGenerator[Sequence[Delta], None]:
        chosen, _ = await self._choice.choose(agent, f"{AGENT_PREFIX}{agent.name}")
        language_model, model = self._choice.models.resolve(chosen)
        plain = msgspec.structs.replace(request, model=model)
        async with aclosing(language_model.stream(plain)) as batches:
            async for batch in batches:
                yield batch

    async def _call(self, agent: AgentDefinition, conversation: Conversation) -> ToolCall:
        session_id = await asyncio.to_thread(self._session_to_go_on, agent, conversation)
        arguments = {
            "agent": agent.name,
            "instruction": conversation.instruction(goes_on=session_id is not None),
        }
        if session_id is not None:
            arguments["session_id"] = session_id
        return ToolCall(id=f"call_{secrets.token_hex(4)}", name=AGENT_TOOL, arguments=arguments)

    def _session_to_go_on(self, agent: AgentDefinition, conversation: Conversation) -> str | None:
        """Return the agent's session if it holds the conversation as it stands. Blocks.

        It can't be continued after a fork, an edit, or a regenerated answer: then the agent gets
        the conversation in a new session.
        """
        earlier = conversation.earlier
        if earlier is None:
            return None
        try:
            session = self._sessions.load(agent.name, earlier.session_id)
        except UNREADABLE:
            return None
        said = said_since_instruction(session.messages)
        return earlier.session_id if said.equals(earlier.said) else None

    async def _output(
        self, agent: AgentDefinition, result: CallResult
    ) -> tuple[AgentOutput, str | None]:
        """Return the agent's output, and why it was stopped, if it was."""
        if result.session_id is None:
            return NOTHING_SAID, result.failure
        try:
            session = await asyncio.to_thread(self._sessions.load, agent.name, result.session_id)
        except UNREADABLE as error:
            return NOTHING_SAID, error.message
        said = said_since_instruction(session.messages)
        return said, result.failure or (None if said.is_complete else "It gave no answer.")


def _info(agent: AgentDefinition, chosen: ModelInfo | None, *, sees: bool) -> ModelInfo:
    return ModelInfo(
        name=f"{AGENT_PREFIX}{agent.name}",
        size_mb=0.0,
        capabilities=("completion", "vision") if sees else ("completion",),
        provider=PROVIDER,
        files_of=chosen.files_of or chosen.provider if chosen else None,
    )
