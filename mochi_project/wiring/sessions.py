"""Builds the services of people's sessions and of ephemeral ones, and what goes with a session."""

from contextlib import ExitStack

from agents_app.sessions import forget_agents_of
from chat.remote.deleted_turns import DeletedTurns
from chat.remote.ephemeral import EphemeralSessions
from chat.summaries.service import SummaryService
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.storage import ConversationStorage
from sessions_app.service import SessionManager
from sessions_app.session import Session


def build_sessions(
    settings: MochiSettings,
    storage: ConversationStorage,
    summaries: SummaryService,
) -> SessionManager:
    """Build the service of sessions; opens nothing."""

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


def build_ephemeral_sessions(
    storage: ConversationStorage, agent_chats: SessionManager
) -> EphemeralSessions:
    """Build the service that removes ephemeral sessions, with those of agents that they called."""

    def forget_more(session: Session) -> None:
        forget_agents_of(session, agent_chats)
        storage.records.discard(session.session_id)

    return EphemeralSessions(
        repository=storage.repository,
        journal=storage.journal,
        confirmation_store=storage.confirmation_store,
        forget_more=forget_more,
    )
