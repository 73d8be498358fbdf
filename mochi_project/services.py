"""The composition root: builds every service once, from the configuration.

The only place that picks adapters. ``api.py`` modules and management commands ask ``get_services``;
nothing below them knows that it exists.
"""

import asyncio
from dataclasses import dataclass, replace
from functools import partial

from django.conf import settings as django_settings

from agents_app.delegate import AgentDelegate
from agents_app.discovery import AgentCatalogue
from agents_app.prompts import EphemeralPrompts
from agents_app.sessions import AgentSessions
from chat.confirmations import ConfirmationStore
from chat.confirming import ConfirmationService
from chat.housekeeping import Housekeeper
from chat.idempotency import IdempotencyKeys
from chat.journals.files import FileTurnJournal
from chat.journals.watcher import PathWatcher
from chat.opener import TurnOpener
from chat.preparation import TurnPreparer
from chat.recovery import TurnRecovery
from chat.remote import RemoteTurns
from chat.service import ChatService
from chat.signals import TurnSignals
from chat.summaries import SummaryService
from chat.summary_failures import SummaryFailures
from chat.turns import TurnLimits, TurnRegistry
from mochi_project.config import MochiSettings
from mochi_project.summary_queue import SummaryTasks
from mochi_project.task_queue import TaskQueue
from models_app.catalogue import ModelCatalogue
from models_app.providers.ollama import OllamaModel
from models_app.providers.vendor import KNOWN_VENDORS, make_vendor
from models_app.providers.vendors import VendorModels
from models_app.structured import StructuredModels
from prompts_app.service import SystemPromptService
from sessions_app.files import FileSessionRepository
from sessions_app.service import SessionManager
from tools_app.catalogue import ToolCatalogue
from tools_app.executions import ExecutionLog
from tools_app.folder import FolderTools
from tools_app.hosts.launcher import HostLauncher
from tools_app.hosts.limits import MEBIBYTE, HostedFolder, HostLimits
from tools_app.hosts.pool import ToolHosts
from tools_app.looks import FolderLooks
from tools_app.mcp.toolset import McpTools


@dataclass(frozen=True, slots=True)
class Services:
    """Every service of one process, built from one configuration."""

    settings: MochiSettings
    sessions: SessionManager
    prompts: SystemPromptService
    models: ModelCatalogue
    turns: TurnRegistry
    chat: ChatService
    confirmations: ConfirmationService
    housekeeper: Housekeeper
    summaries: SummaryService
    tools: ToolCatalogue
    folder_tools: FolderTools
    mcp: McpTools
    executions: ExecutionLog
    agents: AgentCatalogue
    agent_chats: SessionManager
    launcher: HostLauncher

    async def aclose(self) -> None:
        """End what still runs and close shared clients; nothing can be used afterwards."""
        await self.turns.shutdown(grace_seconds=0)
        await asyncio.gather(
            self.folder_tools.aclose(), self.agents.aclose(), self.mcp.aclose()
        )
        await self.launcher.aclose()
        await self.executions.aclose()
        await self.models.aclose()


_current: Services | None = None


def build_services(settings: MochiSettings) -> Services:
    """Build every service from the configuration. Opens nothing: clients connect on first use."""
    models = _build_models(settings)
    state_dir = settings.resolved_state_dir
    launcher = _build_launcher(settings)
    folder_tools = _build_folder_tools(settings, launcher)
    mcp = McpTools(settings.resolved_mcp_config_path, timeout_seconds=settings.tool_timeout_seconds)
    executions = ExecutionLog(state_dir / "executions.jsonl")
    tools = ToolCatalogue([folder_tools, mcp], executions)
    journal = FileTurnJournal(state_dir / "turns")
    repository = FileSessionRepository(settings.resolved_sessions_dir)
    keys = IdempotencyKeys(state_dir / "keys")
    questions = ConfirmationStore(
        state_dir / "confirmations", timeout_seconds=settings.tool_confirmation_timeout_seconds
    )
    recovery = TurnRecovery(repository=repository, journal=journal, keys=keys)

    summaries = _build_summaries(settings, models, repository)

    def forget(session_id: str) -> None:
        journal.discard_session(session_id)
        questions.discard_session(session_id)
        summaries.forget(session_id)

    sessions = SessionManager(
        settings.resolved_sessions_dir,
        repository=repository,
        recover=recovery.recover,
        on_delete=forget,
    )
    watcher = PathWatcher()
    signals = TurnSignals(state_dir / "signals", watcher)
    remote = RemoteTurns(
        repository=repository,
        journal=journal,
        recovery=recovery,
        signals=signals,
        watch=partial(journal.watch, watcher),
    )
    preparer = _build_preparer(settings, models, tools)
    agents = _build_agents(settings, launcher)
    agent_turns = _AgentTurns(settings)
    delegate = AgentDelegate(
        agents=agents,
        sessions=AgentSessions(agent_turns.repository),
        opener=TurnOpener(
            repository=agent_turns.repository,
            journal=agent_turns.journal,
            recovery=agent_turns.recovery,
            confirmations=questions,
        ),
        preparer=preparer,
        prompts=EphemeralPrompts(
            settings.resolved_planning_prompt_path, settings.resolved_execution_prompt_path
        ),
        recorded=lambda toolset: ToolCatalogue([toolset], executions),
        max_iterations=settings.max_agent_iterations,
    )
    turns = TurnRegistry(
        repository=repository,
        journal=journal,
        recovery=recovery,
        signals=signals,
        remote=remote,
        preparer=replace(preparer, delegate=delegate),
        limits=_turn_limits(settings),
        confirmations=questions,
        on_answer=summaries.notice_answer if summaries.enabled else None,
    )
    return Services(
        settings=settings,
        sessions=sessions,
        prompts=SystemPromptService(settings.resolved_system_prompts_dir),
        models=models,
        turns=turns,
        chat=ChatService(turns=turns, remote=remote, sessions=sessions, models=models, keys=keys),
        confirmations=ConfirmationService(
            store=questions, repository=repository, signals=signals, notice=turns.notice_decision
        ),
        housekeeper=Housekeeper(
            {
                "seal dead turns": recovery.seal_all,
                "seal dead turns of agents": agent_turns.recovery.seal_all,
                "sweep turns": partial(recovery.sweep, settings.turn_retention_seconds),
                "sweep turns of agents": partial(
                    agent_turns.recovery.sweep, settings.turn_retention_seconds
                ),
                "sweep signals": partial(signals.sweep, settings.turn_retention_seconds),
                "sweep questions": partial(questions.sweep, settings.turn_retention_seconds),
            }
        ),
        summaries=summaries,
        tools=tools,
        folder_tools=folder_tools,
        mcp=mcp,
        executions=executions,
        agents=agents,
        agent_chats=SessionManager(
            settings.resolved_agent_chats_dir,
            repository=agent_turns.repository,
            recover=agent_turns.recovery.recover,
            on_delete=agent_turns.journal.discard_session,
        ),
        launcher=launcher,
    )


class _AgentTurns:
    """Where agents' sessions and the journals of their turns are."""

    def __init__(self, settings: MochiSettings) -> None:
        state_dir = settings.resolved_state_dir
        self.repository = FileSessionRepository(settings.resolved_agent_chats_dir)
        self.journal = FileTurnJournal(state_dir / "agent_turns")
        self.recovery = TurnRecovery(
            repository=self.repository,
            journal=self.journal,
            keys=IdempotencyKeys(state_dir / "agent_keys"),
        )


def _build_folder_tools(settings: MochiSettings, launcher: HostLauncher) -> FolderTools:
    """Start nothing: the first question about tools does."""
    folder = HostedFolder(path=settings.resolved_tools_dir, name="tools")
    limits = HostLimits(memory_bytes=settings.tool_memory_mb * MEBIBYTE)
    return FolderTools(
        folder.path,
        ToolHosts(launcher, folder, limits),
        FolderLooks(settings.resolved_state_dir / "tools.generation"),
        timeout_seconds=settings.tool_timeout_seconds,
    )


def _build_launcher(settings: MochiSettings) -> HostLauncher:
    workspace = {"MOCHI_WORKSPACE": str(settings.resolved_workspace)}
    return HostLauncher(settings.resolved_data_dir, added=workspace)


def _build_agents(settings: MochiSettings, launcher: HostLauncher) -> AgentCatalogue:
    """Start nothing: the first question about agents does."""
    return AgentCatalogue(
        settings.resolved_agents_dir,
        launcher=launcher,
        looks=FolderLooks(settings.resolved_state_dir / "agents.generation"),
        timeout_seconds=settings.tool_timeout_seconds,
        limits=HostLimits(memory_bytes=settings.tool_memory_mb * MEBIBYTE),
        chats_dir=settings.resolved_agent_chats_dir,
    )


def _build_models(settings: MochiSettings) -> ModelCatalogue:
    silence = settings.upstream_timeout_seconds
    vendors = {vendor.name: vendor for vendor in KNOWN_VENDORS}
    for name, provider in settings.providers.items():
        vendors[name] = make_vendor(
            name, base_url=provider.base_url, key_variable=provider.api_key_env
        )
    return ModelCatalogue(
        OllamaModel(host=settings.ollama_host, silence_timeout=silence),
        [VendorModels(vendor, silence_timeout=silence) for vendor in vendors.values()],
    )


def _build_summaries(
    settings: MochiSettings, models: ModelCatalogue, repository: FileSessionRepository
) -> SummaryService:
    state_dir = settings.resolved_state_dir
    answers = StructuredModels(
        models.resolve,
        ollama_host=settings.ollama_host,
        silence_timeout=settings.upstream_timeout_seconds,
    )
    return SummaryService(
        repository=repository,
        answers=answers,
        models=models,
        queue=SummaryTasks(TaskQueue(state_dir / "queue.sqlite3")),
        failures=SummaryFailures(state_dir / "summaries"),
        unsupported=frozenset(settings.summary_unsupported_models),
        enabled=settings.summarization_enabled,
        interval_seconds=settings.summarization_interval_seconds,
    )


def _build_preparer(
    settings: MochiSettings, models: ModelCatalogue, tools: ToolCatalogue
) -> TurnPreparer:
    return TurnPreparer(
        models=models,
        toolset=tools,
        max_rounds=settings.max_tool_rounds,
        dynamic_window=settings.dynamic_context_window_enabled,
    )


def _turn_limits(settings: MochiSettings) -> TurnLimits:
    return TurnLimits(
        active=settings.max_active_turns,
        seconds=settings.turn_timeout_seconds,
        confirmation_seconds=settings.tool_confirmation_timeout_seconds,
    )


def get_services() -> Services:
    """Return this process's services, building them on first use."""
    global _current  # noqa: PLW0603 - one composition root per process
    if _current is None:
        _current = build_services(django_settings.MOCHI)
    return _current


def install_services(services: Services | None) -> None:
    """Make these the process's services (the lifespan and tests); None forgets them."""
    global _current  # noqa: PLW0603 - one composition root per process
    _current = services
