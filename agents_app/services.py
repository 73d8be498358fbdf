"""Provides the agents: their catalogue and sessions, and what runs them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from agents_app.catalogue import AgentCatalogue
from agents_app.delegate import AgentDelegate
from agents_app.deletion import DeletionWithAgents
from agents_app.language_model import AgentLanguageModel
from agents_app.missing_names import MissingNames
from agents_app.model_choice import ModelChoice
from agents_app.prompts import load_phases
from agents_app.sessions import AgentChats, AgentSessions, forget_agents_of
from agents_app.settings import AgentsSettings
from agents_app.sweeping import FIRST_SECONDS, SessionSweep
from chat.conversation_storage import ConversationStorage, SessionKind, Storages
from chat.registry import TurnRegistry
from chat.remote.ephemeral import EphemeralSessions
from chat.services import build_ephemeral_sessions, build_preparer
from chat.start.claiming import TurnClaimer
from chat.start.preparation import TurnPreparer
from chat.turn.observer import TurnObserver
from chat.work_threads import WorkThreads
from mochi_project.app import Factory, ServicePool, Services
from mochi_project.trust.contents import AGENTS
from mochi_project.trust.gate import TrustGate
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from models_app.services import models_of_owner
from models_app.settings import ModelsSettings
from sessions_app.deletion import SessionDeletion
from sessions_app.enabled_names import EnabledNames
from sessions_app.service import SessionManager
from sessions_app.settings import SessionsSettings
from sessions_app.store.records import RecordStores
from tools_app.catalogue import ToolCatalogue
from tools_app.services import ToolServices, build_generations, host_limits, recorded
from tools_app.settings import ToolsSettings


def _storage(services: Services) -> ConversationStorage:
    return services.get(Storages)[SessionKind.AGENT]


def _catalogue(services: Services) -> AgentCatalogue:
    settings, tools = services.get(AgentsSettings), services.get(ToolsSettings)
    catalogue = AgentCatalogue(
        settings.resolved_agents_dir,
        fork_server=services.get(ToolServices).fork_server,
        generations=build_generations(services, "agents"),
        timeout_seconds=tools.tool_timeout_seconds,
        limits=host_limits(tools),
        chats_dir=services.get(SessionsSettings).resolved_agent_chats_dir,
        gate=TrustGate(settings.trust, AGENTS),
    )
    services.on_close(catalogue.aclose)
    return catalogue


def _models(services: Services) -> ModelCatalogue:
    """Build the catalogue of models with the model of all agents."""
    agents, sessions = services.get(AgentCatalogue), AgentSessions(_storage(services).repository)
    configured = services.get(ModelsSettings).default_model

    def model_of_agents(models: ModelCatalogue) -> AgentLanguageModel:
        choice = ModelChoice(models=models, default=DefaultModel(models, configured))
        return AgentLanguageModel(agents, sessions, choice)

    return models_of_owner(services).with_agents(model_of_agents)


def _preparer(services: Services) -> TurnPreparer:
    """Build what prepares turns, with agents."""
    settings, storage = services.get(AgentsSettings), _storage(services)
    preparer = build_preparer(services)
    delegate = AgentDelegate(
        agents=services.get(AgentCatalogue),
        sessions=AgentSessions(storage.repository),
        claimer=TurnClaimer(
            repository=storage.repository,
            journal=storage.journal,
            recovery=storage.recovery,
            confirmation_store=storage.confirmation_store,
            in_thread=services.get(WorkThreads).run,
        ),
        preparer=preparer,
        choice=ModelChoice(models=preparer.models, default=services.get(DefaultModel)),
        load_phases=partial(
            load_phases,
            settings.resolved_planning_prompt_path,
            settings.resolved_execution_prompt_path,
        ),
        recorded=partial(recorded, services),
        max_iterations=settings.max_agent_iterations,
        observer=services.get(TurnObserver),
    )
    return replace(preparer, delegate=delegate)


def _chats(services: Services) -> AgentChats:
    storage = _storage(services)
    return AgentChats(
        services.get(SessionsSettings).resolved_agent_chats_dir,
        repository=storage.repository,
        recover=storage.recovery.recover,
        on_delete=storage.journal.discard_session,
    )


def _ephemeral_sessions(services: Services) -> EphemeralSessions:
    chats = services.get(AgentChats)
    return build_ephemeral_sessions(services, lambda session: forget_agents_of(session, chats))


def _deletion(services: Services) -> DeletionWithAgents:
    cancel = services.get(TurnRegistry).cancel
    return DeletionWithAgents(services.get(SessionManager), services.get(AgentChats), cancel)


def _session_sweep(services: Services) -> SessionSweep:
    settings = services.get(SessionsSettings)
    directory = settings.resolved_state_dir / "retention"
    return SessionSweep(
        services.get(SessionManager),
        services.get(AgentChats),
        days=settings.session_retention_days,
        records=services.get(RecordStores).open(
            directory, "retention", durable=False, owner=settings.owner
        ),
        lock_dir=directory,
        first_seconds=services.get(ServicePool).until(FIRST_SECONDS),
    )


FACTORIES: Mapping[type | str, Factory] = {AgentCatalogue: _catalogue}
OWNED: Mapping[type | str, Factory] = {
    AgentChats: _chats,
    ModelCatalogue: _models,
    TurnPreparer: _preparer,
    EphemeralSessions: _ephemeral_sessions,
    SessionDeletion: _deletion,
    EnabledNames: lambda services: MissingNames(
        services.get(ToolCatalogue), services.get(AgentCatalogue)
    ),
    SessionSweep: _session_sweep,
}
