"""Builds the agents: their catalogue, their storage, and what runs them."""

from collections.abc import Callable
from dataclasses import dataclass

from agents_app.catalogue import AgentCatalogue
from agents_app.delegate import AgentDelegate
from agents_app.language_model import AgentLanguageModel
from agents_app.model_choice import ModelChoice
from agents_app.prompts import EphemeralPrompts
from agents_app.sessions import AgentSessions
from chat.approvals.store import ConfirmationStore
from chat.start.claiming import TurnClaimer
from chat.start.preparation import TurnPreparer
from chat.work_threads import WorkThreads
from mochi_project.configuration.config import MochiSettings
from mochi_project.trust.contents import AGENTS
from mochi_project.trust.gate import TrustGate
from mochi_project.wiring.storage import ConversationStorage
from mochi_project.wiring.tools import ToolServices, host_limits
from models_app.catalogue import ModelCatalogue
from sessions_app.service import SessionManager
from tools_app.catalogue import ToolCatalogue
from tools_app.folder_snapshots import FolderSnapshots
from tools_app.storage.files.generations import FileGenerations


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentServices:
    """The services of agents."""

    catalogue: AgentCatalogue
    chats: SessionManager
    storage: ConversationStorage
    delegate: AgentDelegate


def build_agent_catalogue(settings: MochiSettings, tools: ToolServices) -> AgentCatalogue:
    """Build the catalogue of agents; none of their code runs before agents are asked for."""
    generations = FileGenerations(settings.resolved_state_dir / "agents.generation")
    return AgentCatalogue(
        settings.resolved_agents_dir,
        fork_server=tools.fork_server,
        snapshots=FolderSnapshots(generations),
        timeout_seconds=settings.tool_timeout_seconds,
        limits=host_limits(settings),
        chats_dir=settings.resolved_agent_chats_dir,
        gate=TrustGate(settings.trust, AGENTS),
    )


def agents_as_models(
    settings: MochiSettings, catalogue: AgentCatalogue, storage: ConversationStorage
) -> Callable[[ModelCatalogue], AgentLanguageModel]:
    """Return what makes the model of all agents for a catalogue of models."""

    def make(models: ModelCatalogue) -> AgentLanguageModel:
        return AgentLanguageModel(
            catalogue, AgentSessions(storage.repository), _choice(settings, models)
        )

    return make


def build_agents(
    settings: MochiSettings,
    *,
    catalogue: AgentCatalogue,
    storage: ConversationStorage,
    tools: ToolServices,
    preparer: TurnPreparer,
    confirmations: ConfirmationStore,
    threads: WorkThreads,
) -> AgentServices:
    """Build what runs agents."""
    delegate = AgentDelegate(
        agents=catalogue,
        sessions=AgentSessions(storage.repository),
        claimer=TurnClaimer(
            repository=storage.repository,
            journal=storage.journal,
            recovery=storage.recovery,
            confirmations=confirmations,
            in_thread=threads.run,
        ),
        preparer=preparer,
        choice=_choice(settings, preparer.models),
        prompts=EphemeralPrompts(
            settings.resolved_planning_prompt_path, settings.resolved_execution_prompt_path
        ),
        recorded=lambda toolset: ToolCatalogue([toolset], tools.executions),
        max_iterations=settings.max_agent_iterations,
    )
    chats = SessionManager(
        storage.sessions_dir,
        repository=storage.repository,
        recover=storage.recovery.recover,
        on_delete=storage.journal.discard_session,
    )
    return AgentServices(catalogue=catalogue, chats=chats, storage=storage, delegate=delegate)


def _choice(settings: MochiSettings, models: ModelCatalogue) -> ModelChoice:
    return ModelChoice(models=models, default_model=settings.default_model)
