"""Builds the service that summarizes sessions in the background."""

from chat.approvals.store import ConfirmationStore
from chat.summaries.failures import SummaryFailures
from chat.summaries.service import SummaryService
from chat.summaries.writer import SummaryWriter, WantedModels
from mochi_project.background.task_queue import DatabaseTaskQueue
from mochi_project.configuration.config import MochiSettings
from models_app.catalogue import ModelCatalogue
from models_app.model_calls import ModelCallObserver
from models_app.structured import StructuredModels
from sessions_app.store.documents import FileDocuments
from sessions_app.store.repository import SessionRepository


def build_summaries(
    settings: MochiSettings,
    models: ModelCatalogue,
    repository: SessionRepository,
    questions: ConfirmationStore,
    observer: ModelCallObserver,
) -> SummaryService:
    """Build the service; the queue is the background worker's."""
    answers = StructuredModels(
        models.resolve,
        is_of_ollama=models.is_of_ollama,
        ollama_host=settings.ollama_host,
        silence_timeout=settings.upstream_timeout_seconds,
        observer=observer,
    )
    wanted = WantedModels(repository, models.is_of_ollama, questions.pending)
    return SummaryService(
        repository=repository,
        writer=SummaryWriter(repository, answers, wanted),
        models=models,
        queue=DatabaseTaskQueue(settings.resolved_private_dir / "queue.sqlite3"),
        failures=SummaryFailures(
            FileDocuments(settings.resolved_state_dir / "summaries", durable=False)
        ),
        unsupported=frozenset(settings.summary_unsupported_models),
        enabled=settings.summarization_enabled,
        interval_seconds=settings.summarization_interval_seconds,
    )
