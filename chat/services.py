"""Provides the services of conversations: turns, streams, approvals, summaries."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from chat.activity.feed import ActivityFeed, ActivityFeeds
from chat.activity.states import StateReader
from chat.approvals.service import ConfirmationService
from chat.conversation_storage import (
    ConversationStorage,
    SessionKind,
    StorageEngine,
    Storages,
    build_storages,
)
from chat.creation import SessionFactory
from chat.inbox.service import InboxService
from chat.notices import services as notices
from chat.notices.notifier import Notifier
from chat.registry import TurnRegistry
from chat.remote.deleted_turns import DeletedTurns
from chat.remote.ephemeral import EphemeralSessions
from chat.remote.journal_follower import LIVENESS_SECONDS
from chat.remote.remote_turns import RemoteTurns
from chat.service import ChatService, SessionSpace
from chat.settings import ChatSettings
from chat.start.preparation import TurnPreparer
from chat.start.turn_limits import TurnPlaces
from chat.start.windows import ContextWindows
from chat.storage.change_log import NO_SESSION, ChangeLog
from chat.storage.files.change_log import ChangeWatcher, FileChangeLog
from chat.storage.files.signals import FileSignals
from chat.storage.files.watcher import PathWatcher
from chat.storage.idempotency_keys import KEY_LIMIT, KEY_RECORDS, IdempotencyKeys
from chat.storage.signals import Signals
from chat.storage.task_queue import TaskQueue, TasksOfOwner
from chat.summaries.failures import SummaryFailures
from chat.summaries.models import SummaryModels
from chat.summaries.service import SummaryService
from chat.summaries.writer import SummaryWriter
from chat.turn.job import ToolLimits
from chat.turn.observer import TURN_LOG, TurnObserver, TurnObservers
from chat.work_threads import FILE_THREADS, OBJECT_THREADS, WorkThreads
from mochi_project.app import Factory, ServicePool, Services
from mochi_project.configuration.app_settings import AppSettings
from mochi_project.keys.ring import KeyRing
from mochi_project.principal import DEFAULT_OWNER
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from models_app.model_calls import ModelCallHeaders, ModelCallObserver
from models_app.settings import ModelsSettings
from models_app.structured import StructuredModels
from prompts_app.service import SystemPromptService
from sessions_app.attachments.service import AttachmentService
from sessions_app.deadline import Deadline
from sessions_app.enabled_names import EnabledNames
from sessions_app.ids_and_clock import SharedClock
from sessions_app.service import SessionManager
from sessions_app.session import Session
from sessions_app.settings import SessionsSettings
from sessions_app.store.file_records import FileRecords
from sessions_app.store.records import RecordStores
from tools_app.catalogue import ToolCatalogue
from tools_app.mcp.login import LoginNotice

SIGNAL_SECONDS = 0.06
"""The interval at which a process with turns polls for signals. Each poll wakes a thread and takes
some 0.2 ms of an idle core; a cancellation may take 200 ms."""
SETTLE_SECONDS = 5.0
"""The silence after which listeners check whether a turn is running, in a cluster."""


def _storages(services: Services) -> Storages:
    engine, settings = services.get(StorageEngine), services.get(SessionsSettings)
    notice = services.get(Notifier).question_changed
    return build_storages(engine, settings, services.get(ChangeLog), notice)


def people_storage(services: Services) -> ConversationStorage:
    """Return the storage of people's sessions."""
    return services.get(Storages)[SessionKind.CHAT]


def build_threads(settings: AppSettings) -> WorkThreads:
    """Build the threads that write sessions: more of them with an object store."""
    return WorkThreads(OBJECT_THREADS if settings.sessions_url is not None else FILE_THREADS)


def _threads(services: Services) -> WorkThreads:
    threads, deadline = build_threads(services.get(AppSettings)), services.get(Deadline)
    services.on_close(partial(asyncio.to_thread, threads.close, deadline))
    return threads


def _places(services: Services) -> TurnPlaces:
    settings = services.get(ChatSettings)
    return TurnPlaces(
        settings.max_active_turns, settings.max_turns_per_client, settings.turn_timeout_seconds
    )


def _windows(services: Services) -> ContextWindows:
    first = services.get(ModelsSettings).first_window
    return ContextWindows(
        models=services.get(ModelCatalogue),
        enabled=services.get(ChatSettings).dynamic_context_window_enabled,
        first_window=None if first == "ollama" else first,
    )


def build_preparer(services: Services) -> TurnPreparer:
    """Build what prepares turns, without agents."""
    settings, attachments = services.get(ChatSettings), services.get(AttachmentService)
    return TurnPreparer(
        models=services.get(ModelCatalogue),
        toolset=services.get(ToolCatalogue),
        tool_limits=ToolLimits(
            rounds=settings.max_tool_rounds,
            repeats=settings.tool_loop_limit,
            tokens=settings.tool_tokens,
        ),
        windows=services.get(ContextWindows),
        context_strategy=settings.context_strategy,
        read_attachment=attachments.store.read,
        renew_attachments=attachments.store.renew,
    )


def _remote(services: Services, storage: ConversationStorage) -> RemoteTurns:
    is_alone = services.get(AppSettings).journal_url is None
    return RemoteTurns(
        repository=storage.repository,
        journal=storage.journal,
        recovery=storage.recovery,
        signals=services.get(Signals),
        settle_seconds=LIVENESS_SECONDS if is_alone else SETTLE_SECONDS,
    )


def _space(
    services: Services,
    kind: SessionKind,
    *,
    on_answer: Callable[[str], None] | None = None,
    forget: Callable[[str], None] | None = None,
) -> SessionSpace:
    """Build what runs the turns of a kind of session; all kinds share limits and threads.

    Args:
        services: The services that it uses.
        kind: The kind.
        on_answer: Called with the session of every final answer, if not None.
        forget: Removes a session, in a thread, after its turn; None keeps sessions.
    """
    storage, signals = services.get(Storages)[kind], services.get(Signals)
    remote, observer = _remote(services, storage), services.get(TurnObserver)
    if kind is SessionKind.CHAT:
        observer = TurnObservers((observer, services.get(Notifier)))
    registry = TurnRegistry(
        repository=storage.repository,
        journal=storage.journal,
        recovery=storage.recovery,
        signals=signals,
        remote=remote,
        preparer=services.get(TurnPreparer),
        confirmation_store=storage.confirmation_store,
        on_answer=on_answer,
        places=services.get(TurnPlaces),
        forget=forget,
        in_thread=services.get(WorkThreads).run,
        observer=observer,
        deadline=services.get(Deadline),
        when_key_ends=services.get(KeyRing).when_ended,
    )
    confirmations = ConfirmationService(
        confirmation_store=storage.confirmation_store,
        repository=storage.repository,
        signals=signals,
        notice=registry.notice_decision,
        go_on=registry.answer_waiting,
    )
    return SessionSpace(
        repository=storage.repository,
        turns=registry,
        remote=remote,
        confirmations=confirmations,
        records=storage.records,
    )


def _people_space(services: Services) -> SessionSpace:
    summaries = services.get(SummaryService)
    on_answer = summaries.notice_answer if summaries.enabled else None
    space = _space(services, SessionKind.CHAT, on_answer=on_answer)
    people_storage(services).recovery.when_waiting(space.turns.answer_waiting)
    return space


def _inbox(services: Services) -> InboxService:
    return InboxService(
        services.get(ChatService),
        services.get(SessionSpace),
        services.get(ChatSettings).when_busy,
    )


def _chat(services: Services) -> ChatService:
    chat = ChatService(
        saved=services.get(SessionSpace),
        ephemeral=_space(
            services, SessionKind.EPHEMERAL, forget=services.get(EphemeralSessions).forget
        ),
        keys=services.get(IdempotencyKeys),
        default_model=services.get(DefaultModel),
        on_shutdown=lambda: services.get(ActivityFeed).close(),
    )
    services.on_close(partial(chat.shutdown, 0))
    return chat


def build_ephemeral_sessions(
    services: Services, forget_more: Callable[[Session], None] | None = None
) -> EphemeralSessions:
    """Build the service that removes ephemeral sessions.

    Args:
        services: The services that it uses.
        forget_more: Removes what else belongs to a session; called in a thread.
    """
    storage = services.get(Storages)[SessionKind.EPHEMERAL]

    def forget(session: Session) -> None:
        if forget_more is not None:
            forget_more(session)
        storage.records.discard(session.session_id)

    return EphemeralSessions(
        repository=storage.repository,
        journal=storage.journal,
        confirmation_store=storage.confirmation_store,
        forget_more=forget,
    )


def _sessions(services: Services) -> SessionManager:
    settings, storage = services.get(SessionsSettings), people_storage(services)
    summaries = services.get(SummaryService)

    def forget(session_id: str) -> None:
        with ExitStack() as stack:  # each is called, whatever the others raise
            stack.callback(storage.records.discard, session_id)
            stack.callback(summaries.forget, session_id)
            stack.callback(storage.confirmation_store.discard_session, session_id)
            stack.callback(storage.journal.discard_session, session_id)

    return SessionManager(
        settings.resolved_sessions_dir,
        repository=storage.repository,
        recover=storage.recovery.recover,
        on_delete=forget,
        on_removal=DeletedTurns(storage.journal, storage.recovery, storage.records).forget,
        expires=settings.session_retention_days > 0,
    )


def _summaries(services: Services) -> SummaryService:
    settings, models = services.get(ChatSettings), services.get(ModelCatalogue)
    providers, storage = services.get(ModelsSettings), people_storage(services)
    answers = StructuredModels(
        models.resolve,
        is_of_ollama=models.is_of_ollama,
        ollama_host=providers.ollama_host,
        silence_timeout=providers.upstream_timeout_seconds,
        observer=services.get(ModelCallObserver),
        call_headers=services.get(ModelCallHeaders).make,
        note_window=models.note_window,
        keep_alive=providers.ollama_keep_alive,
    )
    directory = settings.resolved_state_dir / "summaries"
    failures = services.get(RecordStores).open(
        directory, "summaries", durable=False, owner=settings.owner
    )
    summaries = SummaryService(
        repository=storage.repository,
        writer=SummaryWriter(
            storage.repository,
            answers,
            answers_one_by_one=models.is_of_ollama,
            pending=storage.confirmation_store.pending,
            window_of=services.get(ContextWindows).of_summary,
        ),
        models=SummaryModels(
            catalogue=models,
            unsupported=frozenset(settings.summary_unsupported_models),
            configured=settings.summary_model,
        ),
        queue=TasksOfOwner(services.get(TaskQueue), settings.owner),
        failures=SummaryFailures(failures, clock=services.get(SharedClock)),
        enabled=settings.summarization_enabled,
        interval_seconds=settings.summarization_interval_seconds,
    )
    services.on_close(summaries.aclose)
    return summaries


def _factory(services: Services) -> SessionFactory:
    return SessionFactory(
        sessions=services.get(SessionManager),
        models=services.get(ModelCatalogue),
        default_model=services.get(DefaultModel),
        summary_models=services.get(SummaryService).models,
        names=services.get(EnabledNames),
        prompts=services.get(SystemPromptService),
    )


def _activity(services: Services) -> ActivityFeed:
    storage = people_storage(services)
    return ActivityFeed(
        services.get(ChangeLog),
        StateReader(storage.repository, storage.confirmation_store),
        most_listeners=services.get(ChatSettings).max_listeners,
        feeds=services.get(ActivityFeeds),
    )


def _login_notice(services: Services) -> LoginNotice:
    """Tell of logins in the log of the operator, whose they are."""

    def note(server: str) -> None:
        changes = services.get(ServicePool).of(DEFAULT_OWNER).get(ChangeLog)
        changes.note("mcp_login", NO_SESSION, server)

    return LoginNotice(note)


def _changes(services: Services) -> ChangeLog:
    directory = services.get(AppSettings).resolved_state_dir / "changes"
    return FileChangeLog(directory, services.get(ChangeWatcher))


def _signals(services: Services) -> Signals:
    directory = services.get(AppSettings).resolved_state_dir / "signals"
    return FileSignals(directory, PathWatcher(SIGNAL_SECONDS))


def _keys(services: Services) -> IdempotencyKeys:
    """Build the idempotency keys of people's turns, including ephemeral ones."""
    directory = services.get(AppSettings).resolved_state_dir / "keys"
    records = FileRecords(directory, names=KEY_RECORDS, limit=KEY_LIMIT, durable=False)
    return IdempotencyKeys(records, owners=people_storage(services).repository.owners)


FACTORIES: Mapping[type | str, Factory] = {
    Deadline: lambda _: Deadline(),
    WorkThreads: _threads,
    TurnObserver: lambda _: TURN_LOG,
    Signals: _signals,
    **notices.FACTORIES,
    ChangeWatcher: lambda _: ChangeWatcher(),
    ActivityFeeds: lambda _: ActivityFeeds(),
    StorageEngine: lambda services: StorageEngine(services.get(ChatSettings)),
    LoginNotice: _login_notice,
    TurnPlaces: _places,
}
OWNED: Mapping[type | str, Factory] = {
    ChangeLog: _changes,
    IdempotencyKeys: _keys,
    **notices.OWNED,
    Storages: _storages,
    ContextWindows: _windows,
    TurnPreparer: build_preparer,
    SummaryService: _summaries,
    SessionSpace: _people_space,
    TurnRegistry: lambda services: services.get(SessionSpace).turns,
    ConfirmationService: lambda services: services.get(SessionSpace).confirmations,
    EphemeralSessions: build_ephemeral_sessions,
    ChatService: _chat,
    InboxService: _inbox,
    SessionManager: _sessions,
    SessionFactory: _factory,
    ActivityFeed: _activity,
    StateReader: lambda services: services.get(ActivityFeed).states,
}
