"""Builds the service that summarizes sessions in the background, and its worker's supervisor."""

from collections.abc import Callable

from chat.storage.task_queue import TaskQueue
from chat.summaries.failures import SummaryFailures
from chat.summaries.service import TASK, SummaryService
from chat.summaries.writer import SummaryWriter, WantedModels
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.background.task_queue import DatabaseTaskQueue
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster, build_clock
from mochi_project.wiring.documents import build_failures
from mochi_project.wiring.observers import Observers
from mochi_project.wiring.storage import ConversationStorage
from models_app.catalogue import ModelCatalogue
from models_app.structured import StructuredModels
from sessions_app.deadline import Deadline


def build_summaries(
    settings: MochiSettings,
    models: ModelCatalogue,
    storage: ConversationStorage,
    observers: Observers,
    *,
    cluster: Cluster | None,
) -> SummaryService:
    """Build the service, with the background workers' queue."""
    answers = StructuredModels(
        models.resolve,
        is_of_ollama=models.is_of_ollama,
        ollama_host=settings.ollama_host,
        silence_timeout=settings.upstream_timeout_seconds,
        observer=observers.model_calls,
        call_headers=observers.call_headers,
    )
    wanted = WantedModels(
        storage.repository, models.is_of_ollama, storage.confirmation_store.pending
    )
    return SummaryService(
        repository=storage.repository,
        writer=SummaryWriter(storage.repository, answers, wanted),
        models=models,
        queue=_build_queue(settings, cluster),
        failures=SummaryFailures(build_failures(settings, cluster), clock=build_clock(cluster)),
        unsupported=frozenset(settings.summary_unsupported_models),
        enabled=settings.summarization_enabled,
        interval_seconds=settings.summarization_interval_seconds,
    )


def build_notice(summaries: SummaryService) -> Callable[[str], None] | None:
    """Build the callback for the session of every answer; None if summaries are off."""
    return summaries.notice_answer if summaries.enabled else None


def build_supervisor(
    settings: MochiSettings,
    cluster: Cluster | None,
    summaries: SummaryService,
    deadline: Deadline,
) -> WorkerSupervisor:
    """Build the supervisor of the background worker; starts nothing."""
    if cluster is None:
        return WorkerSupervisor(settings, summaries.queue_due, deadline=deadline)
    from cluster_app.redis.task_queue import (  # noqa: PLC0415 - an extra
        TICK_SECONDS,
        RedisTaskQueue,
        SharedQueueChores,
    )

    chores = SharedQueueChores(RedisTaskQueue(cluster.connection), TASK, summaries.queue_due)
    return WorkerSupervisor(settings, chores, chores_seconds=TICK_SECONDS, deadline=deadline)


def _build_queue(settings: MochiSettings, cluster: Cluster | None) -> TaskQueue:
    if cluster is None:
        return DatabaseTaskQueue(settings.resolved_private_dir / "queue.sqlite3")
    from cluster_app.redis.task_queue import RedisTaskQueue  # noqa: PLC0415 - an extra

    return RedisTaskQueue(cluster.connection)
