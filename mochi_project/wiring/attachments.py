"""Builds the store of images and files that messages refer to."""

from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster
from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.service import AttachmentService
from sessions_app.attachments.store import AttachmentStore


def build_attachments(settings: MochiSettings, cluster: Cluster | None) -> AttachmentStore:  # noqa: ARG001 - files, wherever sessions are
    """Build the store of attachments; opens nothing."""
    return FileAttachmentStore(settings.resolved_data_dir / "attachments")


def build_attachment_service(settings: MochiSettings, cluster: Cluster | None) -> AttachmentService:
    """Build what takes, finds and reads attachments in an event loop."""
    store = build_attachments(settings, cluster)
    return AttachmentService(store, max_bytes=settings.max_attachment_bytes)
