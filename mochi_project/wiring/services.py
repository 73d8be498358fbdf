"""Declares the factories of all services. Only the modules of this package choose adapters."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from agents_app.catalogue import AgentCatalogue
from agents_app.deletion import SessionDeletion
from agents_app.sessions import AgentChats
from agents_app.sweeping import SessionSweep
from chat.activity.feed import ActivityFeed
from chat.activity.states import StateReader
from chat.approvals.service import ConfirmationService
from chat.registry import TurnRegistry
from chat.remote.ephemeral import EphemeralSessions
from chat.service import ChatService, SessionSpace
from chat.start.preparation import TurnPreparer
from chat.storage.change_log import ChangeLog
from chat.storage.idempotency_keys import IdempotencyKeys
from chat.summaries.service import SummaryService
from dialects_app.shared.attaching import RequestFiles
from mochi_project.app import Factory, Services
from mochi_project.background.housekeeping import Housekeeper
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.configuration.config import MochiSettings
from mochi_project.memory.large_responses import LargeResponses
from mochi_project.memory.release import give_back_memory
from mochi_project.wiring.activity import build_activity
from mochi_project.wiring.agents import (
    AgentFolders,
    AgentServices,
    build_agent_folders,
    build_agents,
)
from mochi_project.wiring.attachments import build_attachment_service, build_request_files
from mochi_project.wiring.changes import build_changes
from mochi_project.wiring.cluster import Cluster, build_cluster
from mochi_project.wiring.documents import build_prompts
from mochi_project.wiring.models import build_models
from mochi_project.wiring.observers import Observers, build_observers
from mochi_project.wiring.reachability import Stores
from mochi_project.wiring.retention import build_attachment_sweep, build_session_sweep
from mochi_project.wiring.search import build_search, index_path
from mochi_project.wiring.sessions import build_ephemeral_sessions, build_sessions
from mochi_project.wiring.storage import (
    ConversationStorage,
    SessionKind,
    Storages,
    build_keys,
    build_storages,
    locations_of,
    sweep_keys,
)
from mochi_project.wiring.summaries import build_notice, build_summaries, build_supervisor
from mochi_project.wiring.tools import ToolServices, build_tools
from mochi_project.wiring.turn_support import TurnSupport, build_turn_support
from mochi_project.wiring.turns import TurnBuilder
from mochi_project.wiring.usage import Usage
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from prompts_app.service import SystemPromptService
from search_app.places import SearchPlaces
from sessions_app.attachments.service import AttachmentService
from sessions_app.deadline import Deadline
from sessions_app.http.places import ListPlaces
from sessions_app.service import SessionManager
from sessions_app.store.atomic import sweep_temporary_files
from tools_app.catalogue import ToolCatalogue
from tools_app.execution_log import ExecutionLog
from tools_app.folder import FolderTools
from tools_app.mcp.toolset import McpTools

TEMPORARY_FILE_SECONDS = 3600.0
"""The age at which a temporary file is abandoned; writing one takes milliseconds."""


class SharedStores:
    """Holds the connections shared with other machines, if there are any."""

    def __init__(self, cluster: Cluster | None) -> None:
        self.cluster = cluster


def _cluster(services: Services) -> Cluster | None:
    return services.get(SharedStores).cluster


def _shared_stores(services: Services) -> SharedStores:
    cluster = build_cluster(services.get(MochiSettings))
    if cluster is not None:  # closed last: all turns are saved by then
        services.on_close(partial(asyncio.to_thread, cluster.release))
        services.on_close(cluster.close_pumps)
    return SharedStores(cluster)


def _observers(services: Services) -> Observers:
    observers = build_observers(services.get(MochiSettings))
    services.on_close(observers.aclose)
    return observers


def _turn_support(services: Services) -> TurnSupport:
    turns = services.get(Observers).turns
    support = build_turn_support(services.get(MochiSettings), turns, _cluster(services))
    services.on_close(partial(asyncio.to_thread, support.threads.close, support.deadline))
    return support


def _tools(services: Services) -> ToolServices:
    tools = build_tools(
        services.get(MochiSettings),
        _cluster(services),
        services.get(AttachmentService),
        services.get(Observers).tool_headers,
        services.get(Deadline),
    )
    services.on_close(tools.aclose)
    return tools


def _agent_folders(services: Services) -> AgentFolders:
    folders = build_agent_folders(
        services.get(MochiSettings),
        services.get(ToolServices),
        services.get(Storages)[SessionKind.AGENT],
        _cluster(services),
    )
    services.on_close(folders.catalogue.aclose)
    return folders


def _models(services: Services) -> ModelCatalogue:
    models = build_models(
        services.get(MochiSettings),
        services.get(Observers),
        services.get(AgentFolders).models,
        _cluster(services),
    )
    services.on_close(models.aclose)
    return models


def _storages(services: Services) -> Storages:
    return build_storages(services.get(MochiSettings), _cluster(services), services.get(ChangeLog))


def _keys(services: Services) -> IdempotencyKeys:
    owners = services.get(Storages)[SessionKind.CHAT].repository.owners
    return build_keys(services.get(MochiSettings), _cluster(services), owners)


def _summaries(services: Services) -> SummaryService:
    summaries = build_summaries(
        services.get(MochiSettings),
        services.get(ModelCatalogue),
        services.get(Storages)[SessionKind.CHAT],
        services.get(Observers),
        cluster=_cluster(services),
    )
    services.on_close(summaries.aclose)
    return summaries


def _plain_preparer(services: Services) -> TurnPreparer:
    settings, attachments = services.get(MochiSettings), services.get(AttachmentService)
    return TurnPreparer(
        models=services.get(ModelCatalogue),
        toolset=services.get(ToolCatalogue),
        max_rounds=settings.max_tool_rounds,
        dynamic_window=settings.dynamic_context_window_enabled,
        context_strategy=settings.context_strategy,
        read_attachment=attachments.store.read,
        renew_attachments=attachments.store.renew,
    )


def _agents(services: Services) -> AgentServices:
    return build_agents(
        services.get(MochiSettings),
        services.get(AgentFolders),
        services.get(ToolServices),
        _plain_preparer(services),
        support=services.get(TurnSupport),
    )


def _turn_builder(services: Services) -> TurnBuilder:
    return TurnBuilder(
        services.get(MochiSettings),
        preparer=services.get(TurnPreparer),
        support=services.get(TurnSupport),
    )


def _saved(services: Services) -> SessionSpace:
    return services.get(TurnBuilder).build(
        services.get(Storages)[SessionKind.CHAT],
        on_answer=build_notice(services.get(SummaryService)),
    )


def _ephemeral(services: Services) -> EphemeralSessions:
    return build_ephemeral_sessions(
        services.get(Storages)[SessionKind.EPHEMERAL], services.get(AgentChats)
    )


def _chat(services: Services) -> ChatService:
    chat = ChatService(
        saved=services.get(SessionSpace),
        ephemeral=services.get(TurnBuilder).build(
            services.get(Storages)[SessionKind.EPHEMERAL],
            forget=services.get(EphemeralSessions).forget,
        ),
        keys=services.get(IdempotencyKeys),
        default_model=services.get(DefaultModel),
        on_shutdown=lambda: services.get(ActivityFeed).close(),
    )
    services.on_close(partial(chat.shutdown, 0))
    return chat


def _sessions(services: Services) -> SessionManager:
    return build_sessions(
        services.get(MochiSettings),
        services.get(Storages)[SessionKind.CHAT],
        services.get(SummaryService),
    )


def _activity(services: Services) -> ActivityFeed:
    return build_activity(
        services.get(MochiSettings),
        services.get(ChangeLog),
        services.get(Storages)[SessionKind.CHAT],
    )


def _stores(services: Services) -> Stores:
    summaries = services.get(SummaryService)
    return Stores(_cluster(services), summaries.failing, summaries.oldest_due_seconds)


def _deletion(services: Services) -> SessionDeletion:
    return SessionDeletion(
        services.get(SessionManager), services.get(AgentChats), services.get(TurnRegistry).cancel
    )


def _session_sweep(services: Services) -> SessionSweep:
    return build_session_sweep(
        services.get(MochiSettings),
        services.get(SessionManager),
        services.get(AgentChats),
        _cluster(services),
    )


def _supervisor(services: Services) -> WorkerSupervisor:
    return build_supervisor(
        services.get(MochiSettings),
        _cluster(services),
        services.get(SummaryService),
        services.get(Deadline),
    )


def _search(services: Services) -> object:
    search = build_search(services.get(MochiSettings), services.get(SessionManager).repository)
    services.on_close(partial(asyncio.to_thread, search.close))
    return search


def _housekeeper(services: Services) -> Housekeeper:
    settings, storages = services.get(MochiSettings), services.get(Storages)
    attachments, age = services.get(AttachmentService), settings.turn_retention_seconds
    each_kind = storages.items()
    return Housekeeper(
        {
            **{f"seal dead {kind} turns": each.recovery.seal_all for kind, each in each_kind},
            **{f"sweep {kind} sessions": partial(each.sweep, age) for kind, each in each_kind},
            "remove ephemeral sessions": services.get(EphemeralSessions).sweep,
            "sweep keys": partial(
                sweep_keys, services.get(IdempotencyKeys), storages.values(), age
            ),
            "sweep signals": partial(services.get(TurnSupport).signals.sweep, age),
            "sweep changes": services.get(ChangeLog).sweep,
            "sweep attachments": build_attachment_sweep(
                settings, attachments.store, [each.repository for each in storages.values()]
            ).run,
            "sweep temporary files": partial(_sweep_temporary_files, settings),
            "sweep sessions": services.get(SessionSweep).run,
            "tidy the search index": partial(_tidy_search, services),
            "give memory back": give_back_memory,
        },
        build_sealing(settings, *storages.values()),
    )


def _tidy_search(services: Services) -> None:
    """Remove what was deleted from the index; without one, open nothing. Blocks."""
    if not index_path(services.get(MochiSettings)).exists():
        return
    from search_app.service import SessionSearch  # noqa: PLC0415 - imports SQLite

    services.get(SessionSearch).tidy()


def build_sealing(
    settings: MochiSettings, *storages: ConversationStorage
) -> Mapping[str, Callable[[], object]]:
    """Build the chores that seal turns of dead machines within a second; none without a cluster.

    Claims on sessions in files are read one by one, so they are left to the regular chores.
    """
    if settings.journal_url is None:
        return {}
    hinted = settings.sessions_url is not None
    # A process must have held a lease for a while to declare others dead, so take one at the start.
    lease = {"hold a lease": storages[0].repository.owners.mine}
    return lease | {
        f"seal turns of dead machines in {each.place}": (
            each.recovery.seal_all if hinted else each.recovery.seal_unended
        )
        for each in storages
    }


def _sweep_temporary_files(settings: MochiSettings) -> None:
    """Remove files of interrupted writes in directories that nothing else sweeps."""
    for top in (
        settings.resolved_system_prompts_dir,
        settings.resolved_data_dir / "profiles",
        locations_of(settings, SessionKind.CHAT).records_dir,
        settings.resolved_state_dir,
    ):
        for directory, _, _ in os.walk(top):
            sweep_temporary_files(directory, TEMPORARY_FILE_SECONDS)


FACTORIES: Mapping[type | str, Factory] = {
    SharedStores: _shared_stores,
    Observers: _observers,
    Usage: lambda services: services.get(Observers).usage,
    TurnSupport: _turn_support,
    Deadline: lambda services: services.get(TurnSupport).deadline,
    AttachmentService: lambda services: build_attachment_service(
        services.get(MochiSettings), _cluster(services)
    ),
    ToolServices: _tools,
    ToolCatalogue: lambda services: services.get(ToolServices).catalogue,
    FolderTools: lambda services: services.get(ToolServices).folder,
    McpTools: lambda services: services.get(ToolServices).mcp,
    ExecutionLog: lambda services: services.get(ToolServices).executions,
    AgentFolders: _agent_folders,
    ModelCatalogue: _models,
    DefaultModel: lambda services: DefaultModel(
        services.get(ModelCatalogue), services.get(MochiSettings).default_model
    ),
    ChangeLog: lambda services: build_changes(services.get(MochiSettings), _cluster(services)),
    Storages: _storages,
    IdempotencyKeys: _keys,
    SummaryService: _summaries,
    AgentServices: _agents,
    AgentCatalogue: lambda services: services.get(AgentFolders).catalogue,
    AgentChats: lambda services: services.get(AgentServices).chats,
    TurnPreparer: lambda services: replace(
        _plain_preparer(services), delegate=services.get(AgentServices).delegate
    ),
    TurnBuilder: _turn_builder,
    SessionSpace: _saved,
    TurnRegistry: lambda services: services.get(SessionSpace).turns,
    ConfirmationService: lambda services: services.get(SessionSpace).confirmations,
    EphemeralSessions: _ephemeral,
    ChatService: _chat,
    SessionManager: _sessions,
    SystemPromptService: lambda services: SystemPromptService(
        build_prompts(services.get(MochiSettings), _cluster(services))
    ),
    ActivityFeed: _activity,
    StateReader: lambda services: services.get(ActivityFeed).states,
    Stores: _stores,
    SessionDeletion: _deletion,
    SessionSweep: _session_sweep,
    RequestFiles: lambda services: build_request_files(
        services.get(MochiSettings), services.get(AttachmentService)
    ),
    Housekeeper: _housekeeper,
    WorkerSupervisor: _supervisor,
    LargeResponses: lambda _: LargeResponses(),
    ListPlaces: lambda _: ListPlaces(),
    SearchPlaces: lambda _: SearchPlaces(),
    "search_app.service.SessionSearch": _search,  # by its name: it imports SQLite
}
"""Makes the service of each type."""
