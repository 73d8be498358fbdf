"""Builds the services that delete sessions past their retention, and unused attachments."""

from collections.abc import Sequence

from agents_app.sweeping import SessionSweep
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.attachments import build_session_directories
from mochi_project.wiring.cluster import Cluster
from mochi_project.wiring.documents import build_retention
from sessions_app.attachments.store import AttachmentStore
from sessions_app.attachments.sweeping import AttachmentSweep
from sessions_app.service import SessionManager
from sessions_app.store.repository import SessionRepository


def build_session_sweep(
    settings: MochiSettings,
    sessions: SessionManager,
    chats: SessionManager,
    cluster: Cluster | None,
) -> SessionSweep:
    """Build the service that deletes expired sessions; opens nothing."""
    return SessionSweep(
        sessions,
        chats,
        days=settings.session_retention_days,
        records=build_retention(settings, cluster),
        lock_dir=settings.resolved_state_dir / "retention",
    )


def build_attachment_sweep(
    settings: MochiSettings, store: AttachmentStore, repositories: Sequence[SessionRepository]
) -> AttachmentSweep:
    """Build the sweep of attachments that no session refers to; opens nothing."""
    return AttachmentSweep(store, repositories, build_session_directories(settings))
