"""Runs calls of the ``agent`` tool: each is a turn on a session of the agent's own."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agents_app.agent import AgentDefinition
from agents_app.catalogue import AgentCatalogue
from agents_app.errors import AgentNotFound
from agents_app.model_choice import ModelChoice
from agents_app.narration import Narration
from agents_app.output import attachments_of, output_of
from agents_app.preparation import AgentPreparation
from agents_app.sessions import AgentSessions
from agents_app.tool_text import agent_tool
from chat.approvals.approver import NobodyToApprove
from chat.errors import TurnLost
from chat.start.claiming import ClaimedTurn, TurnClaimer
from chat.start.preparation import TurnPreparer
from chat.stream.events import Event
from chat.stream.notes import Note
from chat.turn.delegation import CallingTurn
from chat.turn.engine import TurnEngine
from chat.turn.observer import TURN_LOG, TurnObserver
from chat.turn.outcome import Outcome
from chat.turn.phases import PhasePrompts
from chat.turn.state_machine import Input, State
from chat.turn.tool_calls import ToolCallRunner
from sessions_app.decoding import convert_to
from sessions_app.errors import MochiError
from sessions_app.messages import NO_EXTRA
from sessions_app.session import agent_named
from sessions_app.shielding import to_the_end
from tools_app.errors import ArgumentsInvalid
from tools_app.toolset import AGENT_TOOL, ToolInvocation, ToolListing, ToolResult, Toolset

_NO_INSTRUCTION = "agent: `instruction` is empty. Say what the agent should do."


class AgentArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of the ``agent`` tool."""

    agent: str
    instruction: str
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDelegate:
    """Runs agents (a ``chat.turn.delegation.Delegate``).

    Attributes:
        agents: The agents.
        sessions: Their sessions.
        claimer: Claims those for turns.
        preparer: Prepares chat turns too: context windows.
        choice: Chooses the models that agents run with.
        load_phases: Returns the phases of a run, with their prompts as they are now; blocks.
        recorded: Wraps an agent's tools so that their calls are recorded.
        max_iterations: How many times an agent's model is asked at most.
        observer: Sees the agents' turns.
    """

    agents: AgentCatalogue
    sessions: AgentSessions
    claimer: TurnClaimer
    preparer: TurnPreparer
    choice: ModelChoice
    load_phases: Callable[[], PhasePrompts]
    recorded: Callable[[Toolset], Toolset]
    max_iterations: int
    observer: TurnObserver = TURN_LOG

    async def listing(self, agents: Sequence[str]) -> ToolListing:
        """Return the ``agent`` tool, whose description lists the agents that can be called."""
        known = await self.agents.list(agents)
        usable = [known[name] for name in agents if name in known and known[name].valid]
        return ToolListing(tools={AGENT_TOOL: agent_tool(usable)} if usable else {})

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """Return the agent's name, as the model wrote it."""
        return str(arguments.get("agent", ""))

    async def run(self, invocation: ToolInvocation, turn: CallingTurn) -> ToolResult:
        """Run an agent with an instruction; the calling turn's approver decides on its tools.

        Raises:
            AgentNotFound, AgentInvalid, AgentSessionNotFound, ArgumentsInvalid: By the arguments.
            NobodyToApprove: A tool of the agent waits for an approval, and no client listens.
        """
        arguments = _arguments(invocation)
        if not (arguments.instruction.strip() or turn.attachments):
            raise ArgumentsInvalid([_NO_INSTRUCTION])
        if arguments.agent not in turn.session.metadata.callable_agents:
            raise AgentNotFound(arguments.agent)
        agent = await self.agents.usable(arguments.agent)
        run = await self._prepare(agent, arguments, invocation, turn)
        turn.emit([run.narration.started(arguments.instruction)])
        try:
            outcome = await run.finish()
        except MochiError as error:
            turn.emit([run.narration.completed(run.session_id, f"Error: {error.message}")])
            return ToolResult(success=False, error_message=error.message, error_code=error.code)
        if outcome.state is State.SUSPENDED:
            raise NobodyToApprove(outcome.confirmations)
        output = output_of(run.session_id, run.messages, outcome.error)
        turn.emit([run.narration.completed(run.session_id, output)])
        attachments = attachments_of(run.messages)
        if outcome.error is not None:
            return ToolResult(
                success=False,
                result=output,
                error_message=outcome.error.message,
                error_code=outcome.error.code,
                attachments=attachments,
            )
        return ToolResult(success=True, result=output, attachments=attachments)

    async def _prepare(
        self,
        agent: AgentDefinition,
        arguments: AgentArguments,
        invocation: ToolInvocation,
        turn: CallingTurn,
    ) -> "AgentRun":
        model, info = await self.choice.choose(agent, turn.session.metadata.model)
        session_id = (arguments.session_id or "").strip()
        if session_id:
            await asyncio.to_thread(self.sessions.load, agent.name, session_id)
        else:
            session_id = await asyncio.to_thread(
                self.sessions.of_call, agent.name, model, invocation
            )
        phases = await asyncio.to_thread(self.load_phases)
        preparation = AgentPreparation(
            agent=agent,
            instruction=arguments.instruction,
            attachments=turn.attachments,
            options=_options(agent, turn),
            model=model,
            info=info,
            settings=turn.approver.settings,
            preparer=self.preparer,
            phases=phases,
            max_iterations=self.max_iterations,
        )
        return AgentRun(
            agent=agent,
            session_id=session_id,
            preparation=preparation,
            narration=Narration(
                agent.name,
                call_index=invocation.call_index,
                tool_call_id=invocation.tool_call_id,
                phases=phases,
            ),
            toolset=self.recorded(self.agents.toolset(agent.name)),
            claimer=self.claimer,
            turn=turn,
            observer=self.observer,
        )


@dataclass(slots=True, kw_only=True)
class AgentRun:
    """Runs an agent once: a turn on its session, narrated to the turn that called it."""

    agent: AgentDefinition
    session_id: str
    preparation: AgentPreparation
    narration: Narration
    toolset: Toolset
    claimer: TurnClaimer
    turn: CallingTurn
    observer: TurnObserver
    _claimed: ClaimedTurn | None = field(default=None, init=False)

    @property
    def messages(self) -> Sequence[Any]:
        """The current messages of the agent's session."""
        return self._claimed.session_writer.history() if self._claimed else ()

    async def finish(self) -> Outcome:
        """Run to the end; when cancelled, stop and save the agent's turn before going on.

        Raises:
            SessionBusy: Another run is active in the agent's session.
        """
        beginning = asyncio.create_task(self._begin())
        try:
            engine = await asyncio.shield(beginning)
            return await asyncio.shield(engine.ended)
        except asyncio.CancelledError:
            await self._stop(beginning)
            raise
        finally:
            if beginning.done() and not beginning.exception():
                self.turn.children.discard(beginning.result().running_now)

    async def _stop(self, beginning: "asyncio.Task[TurnEngine]") -> None:
        with suppress(asyncio.CancelledError, MochiError):
            await to_the_end(beginning)
        if beginning.exception() is not None:
            return  # it never began
        engine, error = beginning.result(), self.turn.why_stopped()
        engine.stop(_stopping(error), error)
        with suppress(asyncio.CancelledError):
            await to_the_end(engine.ended)

    async def _begin(self) -> TurnEngine:
        claimed = self._claimed = await self.claimer.claim(self.session_id, self.preparation)
        claimed.stream.observe(self._retell)
        tools = claimed.job.available_tools
        engine = TurnEngine(
            claimed.job,
            stream=claimed.stream,
            session_writer=claimed.session_writer,
            tools=ToolCallRunner(
                self.toolset,
                available_tools=tools,
                session_id=self.session_id,
                queues=self.turn.queues,
                observer=self.observer,
            ),
            approver=self.turn.approver.for_agent(self.agent.name, tools.tools),
            observer=self.observer,
        )
        self.turn.children.add(engine.running_now)
        engine.start()
        return engine

    def _retell(self, events: Sequence[Event | Note]) -> None:
        """Send the agent's events to the listeners of the calling turn."""
        if retold := self.narration.retell(events):
            self.turn.emit(retold)


def _stopping(error: MochiError | None) -> Input:
    """Return the reason to stop an agent's turn, for the reason that stopped its calling turn."""
    if isinstance(error, TurnLost):
        return Input.LOST
    return Input.CANCEL_REQUESTED if error is None else Input.SHUTDOWN


def _options(agent: AgentDefinition, turn: CallingTurn) -> Mapping[str, Any]:
    """Return the calling turn's sampling options if the agent is the session's model."""
    is_model = agent_named(turn.session.metadata.model) == agent.name
    return turn.options if is_model else NO_EXTRA


def _arguments(invocation: ToolInvocation) -> AgentArguments:
    try:
        return convert_to(invocation.arguments, AgentArguments)
    except msgspec.ValidationError as error:
        raise ArgumentsInvalid([f"agent: {error}."]) from error
