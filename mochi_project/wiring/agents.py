"""Builds the agents: their catalogue, storage and runner."""

from dataclasses import dataclass

from agents_app.catalogue import AgentCatalogue
from agents_app.delegate import AgentDelegate
from agents_app.language_model import AgentLanguageModel
from agents_app.model_choice import ModelChoice
from agents_app.prompts import EphemeralPrompts
from agents_app.sessions import AgentChats, AgentSessions
from chat.start.claiming import TurnClaimer
from chat.start.preparation import TurnPreparer
from mochi_project.configuration.config import MochiSettings
from mochi_project.trust.contents import AGENTS
from mochi_project.trust.gate import TrustGate
from mochi_project.wiring.cluster import Cluster
from mochi_project.wiring.storage import ConversationStorage
from mochi_project.wiring.tools import ToolServices, build_generations, host_limits
from mochi_project.wiring.turn_support import TurnSupport
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from tools_app.folder_snapshots import FolderSnapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentServices:
    """The services of agents."""

    catalogue: AgentCatalogue
    chats: AgentChats
    delegate: AgentDelegate


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFolders:
    """The folders of agents and the storage of their sessions, from which models are built."""

    catalogue: AgentCatalogue
    storage: ConversationStorage
    default_model: str | None

    def models(self, models: ModelCatalogue) -> AgentLanguageModel:
        """Return the model of all agents."""
        sessions = AgentSessions(self.storage.repository)
        return AgentLanguageModel(self.catalogue, sessions, self.choice(models))

    def choice(self, models: ModelCatalogue) -> ModelChoice:
        """Return the choice of models that agents run with."""
        return ModelChoice(models=models, default=DefaultModel(models, self.default_model))


def build_agent_folders(
    settings: MochiSettings,
    tools: ToolServices,
    storage: ConversationStorage,
    cluster: Cluster | None = None,
) -> AgentFolders:
    """Build the catalogue of agents; their code is loaded on first use."""
    catalogue = AgentCatalogue(
        settings.resolved_agents_dir,
        fork_server=tools.fork_server,
        snapshots=FolderSnapshots(build_generations(settings, cluster, "agents")),
        timeout_seconds=settings.tool_timeout_seconds,
        limits=host_limits(settings),
        chats_dir=settings.resolved_agent_chats_dir,
        gate=TrustGate(settings.trust, AGENTS),
    )
    return AgentFolders(catalogue=catalogue, storage=storage, default_model=settings.default_model)


def build_agents(
    settings: MochiSettings,
    folders: AgentFolders,
    tools: ToolServices,
    preparer: TurnPreparer,
    *,
    support: TurnSupport,
) -> AgentServices:
    """Build the services that run agents."""
    catalogue, storage = folders.catalogue, folders.storage
    delegate = AgentDelegate(
        agents=catalogue,
        sessions=AgentSessions(storage.repository),
        claimer=TurnClaimer(
            repository=storage.repository,
            journal=storage.journal,
            recovery=storage.recovery,
            confirmation_store=storage.confirmation_store,
            in_thread=support.threads.run,
        ),
        preparer=preparer,
        choice=folders.choice(preparer.models),
        prompts=EphemeralPrompts(
            settings.resolved_planning_prompt_path, settings.resolved_execution_prompt_path
        ),
        recorded=tools.recorded,
        max_iterations=settings.max_agent_iterations,
        observer=support.observer,
    )
    chats = AgentChats(
        settings.resolved_agent_chats_dir,
        repository=storage.repository,
        recover=storage.recovery.recover,
        on_delete=storage.journal.discard_session,
    )
    return AgentServices(catalogue=catalogue, chats=chats, delegate=delegate)
