"""Builds every service once, from the configuration: the composition root.

Only the modules of this package choose adapters. ``api.py`` modules and management commands use
``get_services``; lower layers do not.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from django.conf import settings as django_settings

from agents_app.catalogue import AgentCatalogue
from agents_app.deletion import SessionDeletion
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
from chat.storage.signals import Signals
from chat.summaries.service import SummaryService
from dialects_app.shared.attaching import RequestFiles
from mochi_project.background.housekeeping import Housekeeper
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.configuration.config import MochiSettings
from mochi_project.memory.large_responses import LargeResponses
from mochi_project.memory.release import give_back_memory
from mochi_project.wiring.activity import build_activity
from mochi_project.wiring.agents import (
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
from mochi_project.wiring.search import SearchWhenUsed, build_search
from mochi_project.wiring.sessions import build_ephemeral_sessions, build_sessions
from mochi_project.wiring.storage import (
    ConversationStorage,
    SessionKind,
    build_keys,
    build_storages,
    locations_of,
)
from mochi_project.wiring.summaries import build_notice, build_summaries, build_supervisor
from mochi_project.wiring.tools import ToolServices, build_tools
from mochi_project.wiring.turn_support import TurnSupport, build_turn_support
from mochi_project.wiring.turns import TurnBuilder
from mochi_project.wiring.usage import Usage
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from prompts_app.service import SystemPromptService
from sessions_app.attachments.service import AttachmentService
from sessions_app.deadline import Deadline
from sessions_app.service import SessionManager
from sessions_app.store.atomic import sweep_temporary_files
from tools_app.catalogue import ToolCatalogue
from tools_app.execution_log import ExecutionLog
from tools_app.folder import FolderTools
from tools_app.mcp.toolset import McpTools

if TYPE_CHECKING:
    from search_app.service import SessionSearch

TEMPORARY_FILE_SECONDS = 3600.0
"""The age at which a temporary file is abandoned; writing one takes milliseconds."""
MOST_LISTS_AT_ONCE = 1
"""The maximum concurrent lists of sessions; others wait. Listing 10,000 sessions holds the GIL for
30 ms, and several threads would pass it to each other and starve the event loop."""


@dataclass(frozen=True, slots=True)
class Services:
    """Every service of one process, built from one configuration."""

    settings: MochiSettings
    sessions: SessionManager
    prompts: SystemPromptService
    models: ModelCatalogue
    preparer: TurnPreparer
    turns: TurnRegistry
    chat: ChatService
    activity: ActivityFeed
    confirmations: ConfirmationService
    housekeeper: Housekeeper
    summaries: SummaryService
    agents: AgentCatalogue
    agent_chats: SessionManager
    attachments: AttachmentService
    stores: Stores
    observers: Observers
    deadline: Deadline
    _tools: ToolServices
    _closing: Callable[[], Awaitable[None]]
    large_responses: LargeResponses = field(default_factory=LargeResponses)
    list_places: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MOST_LISTS_AT_ONCE)
    )
    _search: SearchWhenUsed = field(default_factory=SearchWhenUsed)

    def __post_init__(self) -> None:
        """Add the chores that need services built here to the housekeeper."""
        self.housekeeper.add("sweep sessions", self.session_sweep.run)
        tidy = partial(self._search.tidy, self.settings, self.sessions.repository)
        self.housekeeper.add("tidy the search index", tidy)

    @property
    def tools(self) -> ToolCatalogue:
        """Return all tools."""
        return self._tools.catalogue

    @property
    def folder_tools(self) -> FolderTools:
        """Return the tools of the folder."""
        return self._tools.folder

    @property
    def default_model(self) -> DefaultModel:
        """Return the choice of the model of conversations that name none."""
        return self.chat.default_model

    @property
    def mcp(self) -> McpTools:
        """Return the tools of MCP servers."""
        return self._tools.mcp

    @property
    def executions(self) -> ExecutionLog:
        """Return the log of the tools' calls."""
        return self._tools.executions

    @property
    def usage(self) -> Usage:
        """Return the usage service."""
        return self.observers.usage

    @property
    def states(self) -> StateReader:
        """Return the reader of the states of people's sessions."""
        return self.activity.states

    @property
    def given_files(self) -> RequestFiles:
        """Return the store of images and files of OpenAI's protocols."""
        return build_request_files(self.settings, self.attachments)

    @property
    def deletion(self) -> SessionDeletion:
        """Return the service that deletes sessions and ends their turns."""
        return SessionDeletion(self.sessions, self.agent_chats, self.turns.cancel)

    @property
    def search(self) -> "SessionSearch":
        """Return the search service."""
        return self._search.get(lambda: build_search(self.settings, self.sessions.repository))

    @property
    def search_places(self) -> asyncio.Semaphore:
        """Return the semaphore that limits searches of clients."""
        return self._search.places

    @property
    def session_sweep(self) -> SessionSweep:
        """Return the service that deletes expired sessions."""
        cluster = self.stores.cluster
        return build_session_sweep(self.settings, self.sessions, self.agent_chats, cluster)

    async def space_with(self, session_id: str) -> SessionSpace:
        """Return the space with this session, saved or ephemeral; unknown ones count as saved."""
        return await self.chat.space_with(session_id)

    @property
    def active_turns(self) -> int:
        """The number of turns in this process, those that are starting included."""
        return sum(each.active_count for each in self.chat.registries)

    def sample(self, loop_lag: float) -> None:
        """Record the event loop's delay and the number of listeners, for the metrics."""
        if self.observers.meters is not None:
            streams = sum(each.listener_count for each in self.chat.registries)
            self.observers.meters.sample(loop_lag=loop_lag, streams=streams)

    def build_supervisor(self) -> WorkerSupervisor:
        """Build the supervisor of the background worker; starts nothing."""
        return build_supervisor(self.settings, self.stores.cluster, self.summaries, self.deadline)

    async def end_turns(self, grace_seconds: float) -> None:
        """Refuse new turns, give running ones the grace time to end, then save and end the rest."""
        await self.chat.shutdown(grace_seconds)
        self.activity.close()

    async def aclose(self) -> None:
        """Stop everything and close shared clients, whatever the others raise."""
        async with AsyncExitStack() as stack:  # the last one first
            stack.push_async_callback(self.observers.aclose)
            stack.push_async_callback(self.models.aclose)
            stack.push_async_callback(self._closing)
            stack.push_async_callback(self.agents.aclose)
            stack.push_async_callback(self.summaries.aclose)
            stack.push_async_callback(asyncio.to_thread, self._search.close)
            await self.end_turns(grace_seconds=0)


_current: Services | None = None


def build_services(settings: MochiSettings) -> Services:
    """Build every service from the configuration. Opens nothing: clients connect on first use."""
    observers, cluster = build_observers(settings), build_cluster(settings)
    support = build_turn_support(settings, observers.turns, cluster)
    attachments = build_attachment_service(settings, cluster)
    tools = build_tools(settings, cluster, attachments, observers.tool_headers, support.deadline)
    storages = build_storages(settings, cluster, changes := build_changes(settings, cluster))
    storage = storages[SessionKind.CHAT]
    folders = build_agent_folders(settings, tools, storages[SessionKind.AGENT], cluster)
    models = build_models(settings, observers, folders.models, cluster)
    summaries = build_summaries(settings, models, storage, observers, cluster=cluster)
    preparer = _build_preparer(settings, models, tools.catalogue, attachments)
    agents = build_agents(settings, folders, tools, preparer, support=support)
    preparer = replace(preparer, delegate=agents.delegate)
    builder = TurnBuilder(settings, preparer=preparer, support=support)
    saved = builder.build(storage, on_answer=build_notice(summaries))
    ephemeral = build_ephemeral_sessions(storages[SessionKind.EPHEMERAL], agents.chats)
    unsaved = builder.build(storages[SessionKind.EPHEMERAL], forget=ephemeral.forget)
    keys = build_keys(settings, cluster)
    return Services(
        settings=settings,
        sessions=build_sessions(settings, storage, summaries),
        attachments=attachments,
        prompts=SystemPromptService(build_prompts(settings, cluster)),
        models=models,
        preparer=preparer,
        turns=saved.turns,
        chat=_build_chat(settings, models, saved, unsaved, keys),
        confirmations=saved.confirmations,
        activity=build_activity(settings, changes, storage),
        housekeeper=_build_housekeeper(
            settings,
            storages,
            ephemeral=ephemeral,
            keys=keys,
            signals=support.signals,
            changes=changes,
            attachments=attachments,
        ),
        summaries=summaries,
        agents=agents.catalogue,
        agent_chats=agents.chats,
        stores=Stores(cluster, summaries.failing, summaries.oldest_due_seconds),
        observers=observers,
        deadline=support.deadline,
        _tools=tools,
        _closing=partial(_close, tools, support, cluster),
    )


def _build_chat(
    settings: MochiSettings,
    models: ModelCatalogue,
    saved: SessionSpace,
    ephemeral: SessionSpace,
    keys: IdempotencyKeys,
) -> ChatService:
    return ChatService(
        saved=saved,
        ephemeral=ephemeral,
        keys=keys,
        default_model=DefaultModel(models, settings.default_model),
    )


async def _close(tools: ToolServices, support: TurnSupport, cluster: Cluster | None) -> None:
    async with AsyncExitStack() as stack:  # the last one first
        if cluster is not None:  # all turns are saved by then
            stack.push_async_callback(asyncio.to_thread, cluster.release)
            stack.callback(cluster.close_pumps)
        stack.push_async_callback(asyncio.to_thread, support.threads.close, support.deadline)
        await tools.aclose()


def _build_preparer(
    settings: MochiSettings,
    models: ModelCatalogue,
    tools: ToolCatalogue,
    attachments: AttachmentService,
) -> TurnPreparer:
    return TurnPreparer(
        models=models,
        toolset=tools,
        max_rounds=settings.max_tool_rounds,
        dynamic_window=settings.dynamic_context_window_enabled,
        context_strategy=settings.context_strategy,
        read_attachment=attachments.store.read,
        renew_attachments=attachments.store.renew,
    )


def _build_housekeeper(
    settings: MochiSettings,
    storages: Mapping[SessionKind, ConversationStorage],
    *,
    ephemeral: EphemeralSessions,
    keys: IdempotencyKeys,
    signals: Signals,
    changes: ChangeLog,
    attachments: AttachmentService,
) -> Housekeeper:
    age = settings.turn_retention_seconds
    each_kind = storages.items()
    return Housekeeper(
        {
            **{f"seal dead {kind} turns": each.recovery.seal_all for kind, each in each_kind},
            **{f"sweep {kind} sessions": partial(each.sweep, age) for kind, each in each_kind},
            "remove ephemeral sessions": ephemeral.sweep,
            "sweep keys": partial(_sweep_keys, keys, storages.values(), age),
            "sweep signals": partial(signals.sweep, age),
            "sweep changes": changes.sweep,
            "sweep attachments": build_attachment_sweep(
                settings,
                attachments.store,
                [each.repository for each in storages.values()],
            ).run,
            "sweep temporary files": partial(_sweep_temporary_files, settings),
            "give memory back": give_back_memory,
        },
        build_sealing(settings, *storages.values()),
    )


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


def _sweep_keys(
    keys: IdempotencyKeys, storages: Collection[ConversationStorage], age_seconds: float
) -> None:
    """Free old keys whose turns have no journal in any storage."""
    keys.sweep(age_seconds, lambda: set().union(*(each.journal.all_turns() for each in storages)))


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


def get_services() -> Services:
    """Return this process's services, building them on first use."""
    global _current  # noqa: PLW0603 - one composition root per process
    if _current is None:
        _current = build_services(django_settings.MOCHI)
    return _current


def install_services(services: Services | None) -> None:
    """Set the process's services (for the lifespan and tests); None removes them."""
    global _current  # noqa: PLW0603 - one composition root per process
    _current = services
