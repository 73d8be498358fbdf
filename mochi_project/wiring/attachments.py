"""Builds the store of images and files that messages refer to."""

from pathlib import Path

from dialects_app.shared.attaching import FetchesFiles, RequestFiles
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster, build_clock
from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.service import AttachmentService
from sessions_app.attachments.session_directories import SessionDirectories
from sessions_app.attachments.store import AttachmentStore


def attachments_dir(settings: MochiSettings) -> Path:
    """Return the directory of attachments, if they are stored as files."""
    return settings.resolved_data_dir / "attachments"


def build_attachments(settings: MochiSettings, cluster: Cluster | None) -> AttachmentStore:
    """Build the store of attachments, next to the sessions; opens nothing."""
    if cluster is not None and (objects := cluster.objects) is not None:
        from cluster_app.objects.attachments import (  # noqa: PLC0415 - an extra
            ObjectAttachmentStore,
        )

        return ObjectAttachmentStore(objects.under("attachments"), now=build_clock(cluster))
    return FileAttachmentStore(
        attachments_dir(settings), note_use=_session_directories(settings).note
    )


def build_session_directories(settings: MochiSettings) -> SessionDirectories | None:
    """Build the records of who uses the attachments; None where sessions are objects beside them.

    Ephemeral sessions are left out: all servers of a data directory have the same.
    """
    if settings.sessions_url is not None:
        return None
    return _session_directories(settings)


def _session_directories(settings: MochiSettings) -> SessionDirectories:
    own = [settings.resolved_sessions_dir, settings.resolved_agent_chats_dir]
    return SessionDirectories(attachments_dir(settings), own)


def build_attachment_service(settings: MochiSettings, cluster: Cluster | None) -> AttachmentService:
    """Build the async attachment service."""
    store = build_attachments(settings, cluster)
    return AttachmentService(store, max_bytes=settings.max_attachment_bytes)


def build_request_files(settings: MochiSettings, attachments: AttachmentService) -> RequestFiles:
    """Build the store of images and files of OpenAI's protocols."""
    return RequestFiles(
        attachments,
        max_count=settings.max_attachments,
        fetcher=_build_fetcher() if settings.fetch_images else None,
    )


def _build_fetcher() -> FetchesFiles:
    from dialects_app.shared.fetching import Fetcher  # noqa: PLC0415 - few need a client

    return Fetcher()
