"""Builds the services of ephemeral conversations, which are deleted after their turn."""

from dataclasses import dataclass

from agents_app.sessions import forget_agents_of
from chat.approvals.store import ConfirmationStore
from chat.remote.ephemeral import EphemeralSessions
from chat.service import SessionSpace
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster
from mochi_project.wiring.storage import (
    ConversationStorage,
    build_confirmation_store,
    build_ephemeral_storage,
)
from mochi_project.wiring.turns import TurnBuilder
from sessions_app.service import SessionManager
from sessions_app.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class EphemeralServices:
    """The services of ephemeral conversations."""

    space: SessionSpace
    storage: ConversationStorage
    sessions: EphemeralSessions
    confirmation_store: ConfirmationStore

    def sweep(self, older_than_seconds: float) -> None:
        """Remove ended conversations, and those of dead processes."""
        self.storage.recovery.sweep(older_than_seconds)
        self.sessions.sweep()
        self.confirmation_store.sweep(older_than_seconds)
        self.storage.sweep_records(older_than_seconds)


def build_ephemeral(
    settings: MochiSettings,
    builder: TurnBuilder,
    agent_chats: SessionManager,
    cluster: Cluster | None = None,
) -> EphemeralServices:
    """Build the services.

    Args:
        settings: The configuration.
        builder: Builds the services that run turns.
        agent_chats: The sessions of agents; those of a conversation's calls are deleted with it.
        cluster: The connections shared with other machines, if any.
    """
    storage = build_ephemeral_storage(settings, cluster)
    confirmation_store = build_confirmation_store(settings, cluster, ephemeral=True)

    def forget_more(session: Session) -> None:
        forget_agents_of(session, agent_chats)
        storage.records.discard(session.session_id)

    sessions = EphemeralSessions(
        repository=storage.repository,
        journal=storage.journal,
        confirmation_store=confirmation_store,
        forget_more=forget_more,
    )
    space = builder.build(storage, confirmation_store, forget=sessions.forget)
    return EphemeralServices(
        space=space, storage=storage, sessions=sessions, confirmation_store=confirmation_store
    )
