"""Builds the service of people's sessions, and what goes with a session."""

from chat.approvals.store import ConfirmationStore
from chat.remote.deleted_turns import DeletedTurns
from chat.summaries.service import SummaryService
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.storage import ConversationStorage
from sessions_app.service import SessionManager


def build_sessions(
    settings: MochiSettings,
    storage: ConversationStorage,
    confirmation_store: ConfirmationStore,
    summaries: SummaryService,
) -> SessionManager:
    """Build the service of sessions; opens nothing."""

    def forget(session_id: str) -> None:
        storage.journal.discard_session(session_id)
        confirmation_store.discard_session(session_id)
        summaries.forget(session_id)
        storage.records.discard(session_id)

    return SessionManager(
        settings.resolved_sessions_dir,
        repository=storage.repository,
        recover=storage.recovery.recover,
        on_delete=forget,
        on_removal=DeletedTurns(storage.journal, storage.recovery, storage.records).forget,
        expires=settings.session_retention_days > 0,
    )
