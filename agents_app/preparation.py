"""Prepares an agent's turn."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from agents_app.agent import AgentDefinition
from chat.context.history import Continuation, continue_from
from chat.start.offered_tools import with_own_tools
from chat.start.preparation import Prepare, TurnPreparer, plan_turn, user_message
from chat.turn.job import LoadedLookUp, TurnJob
from chat.turn.phases import PhasePrompts
from models_app.language_model import ModelInfo
from sessions_app.calls import open_calls
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import Attachment, SystemMessage, UserMessage
from sessions_app.session import Session, ToolSettings, set_system_prompt, with_metadata
from tools_app.available_tools import AvailableTools


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPreparation:
    """Prepares the turn of one instruction (a ``chat.start.preparation.Preparation``).

    Attributes:
        agent: The agent.
        instruction: What it shall do.
        attachments: Images and files that it is shown with that.
        options: Sampling options of the call, over those of the agent's session.
        model: The model that it runs with.
        info: What is known of the model.
        settings: The calling session's policies, which hold for the agent's tools.
        preparer: What a chat's turns are prepared with.
        phases: The prompts of the run's phases.
        max_iterations: How many times the model is asked at most.
    """

    agent: AgentDefinition
    instruction: str
    attachments: tuple[Attachment, ...]
    options: Mapping[str, Any]
    model: str
    info: ModelInfo | None
    settings: ToolSettings
    preparer: TurnPreparer
    phases: PhasePrompts
    max_iterations: int

    def must_ask(self, session: Session) -> bool:  # noqa: ARG002 - the port's
        """Return False: model and tools were looked up before."""
        return False

    async def look_up(self, session: Session) -> Prepare:
        """Return what prepares the turn."""
        return partial(self._prepare, self.preparer.windows.look_up_loaded(session, self.model))

    def _prepare(self, loaded: LoadedLookUp | None, turn_id: str, session: Session) -> TurnJob:
        """Decide everything that must be known before the agent's model is asked. No I/O."""
        refreshed = self._refreshed(session)
        continuation = self._continuation(refreshed)
        language_model, name = self.preparer.models.resolve(self.model)
        offered = AvailableTools(tools=self.agent.tools, settings=self.settings)
        offered = with_own_tools(offered, refreshed, self.info, self.preparer.tool_limits.tokens)
        can_think = self.info is not None and self.info.can_think
        messages = [self._message()] if continuation.append else ()
        rules = self.preparer.rules(refreshed, self.info)
        rules = msgspec.structs.replace(rules, instructions=offered.system_text)
        plan = plan_turn(rules, refreshed, continuation, messages, offered.specs)
        return TurnJob(
            turn_id=turn_id,
            session=refreshed,
            continuation=continuation,
            messages=messages,
            options={**(refreshed.metadata.options or {}), **self.options},
            language_model=language_model,
            model=name,
            purpose="agent",
            agent=self.agent.name,
            dialect="agent",
            think=False if can_think else None,
            window=self.preparer.windows.choose(refreshed, self.info, plan.estimate.tokens),
            loaded=loaded,
            available_tools=offered,
            tool_limits=msgspec.structs.replace(
                self.preparer.tool_limits, rounds=self.max_iterations
            ),
            phases=self.phases,
            follows_settings=False,
            rules=rules,
            plan=plan,
            attached=self.preparer.attached(self.info),
        )

    def _message(self) -> UserMessage:
        message = user_message(self.instruction)
        return msgspec.structs.replace(message, attachments=self.attachments)

    def _refreshed(self, session: Session) -> Session:
        """Return the session with the agent's latest system prompt and the model of this run."""
        now = utc_now()
        if session.metadata.model != self.model:
            session = with_metadata(session, now=now, model=self.model)
        current = session.system_prompt
        if current is not None and current.content == self.agent.system_prompt:
            return session
        prompt = SystemMessage(
            content=self.agent.system_prompt,
            message_id=current.message_id if current else new_message_id(),
            timestamp=now,
            source_file=f"{self.agent.name}/SKILL.md",
        )
        return set_system_prompt(session, prompt, now=now)

    def _continuation(self, session: Session) -> Continuation:
        """Go on where a suspended run of the same instruction was, or begin a new one."""
        messages = session.messages
        instructions = [m.content for m in messages if isinstance(m, UserMessage)]
        resumes = bool(open_calls(messages)) and instructions[-1:] == [self.instruction]
        found = continue_from(messages, None if resumes else self.instruction)
        return found or Continuation(keep=len(messages), append=True)
