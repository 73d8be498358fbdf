"""Builds the service that deletes sessions past their retention."""

from agents_app.sweeping import SessionSweep
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster
from mochi_project.wiring.documents import build_retention
from sessions_app.service import SessionManager


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
