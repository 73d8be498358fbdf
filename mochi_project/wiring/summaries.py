"""Builds the service that summarises sessions in the background."""

from chat.approvals.store import ConfirmationStore
from chat.summaries.failures import SummaryFailures
from chat.summaries.service import SummaryService
from chat.summaries.writer import SummaryWriter, WantedModels
from mochi_project.background.summary_queue import SummaryTasks
from mochi_project.background.task_queue import TaskQueue
from mochi_project.configuration.config import MochiSettings
from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelNotFound
from models_app.ollama.language_model import OllamaModel
from models_app.structured import StructuredModels
from sessions_app.store.repository import SessionRepository


def build_summaries(
    settings: MochiSettings,
    models: ModelCatalogue,
    repository: SessionRepository,
    questions: ConfirmationStore,
) -> SummaryService:
    """Build the service; the queue is the background worker's."""
    answers = StructuredModels(
        models.resolve,
        ollama_host=settings.ollama_host,
        silence_timeout=settings.upstream_timeout_seconds,
    )

    def is_ollamas(model: str) -> bool:
        try:
            return isinstance(models.resolve(model)[0], OllamaModel)
        except ModelNotFound:
            return False

    wanted = WantedModels(repository, is_ollamas, questions.pending)
    return SummaryService(
        repository=repository,
        writer=SummaryWriter(repository, answers, wanted),
        models=models,
        queue=SummaryTasks(TaskQueue(settings.resolved_private_dir / "queue.sqlite3")),
        failures=SummaryFailures(settings.resolved_state_dir / "summaries"),
        unsupported=frozenset(settings.summary_unsupported_models),
        enabled=settings.summarization_enabled,
        interval_seconds=settings.summarization_interval_seconds,
    )
