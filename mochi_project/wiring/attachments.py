"""Builds the store of images and files that messages refer to."""

from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster
from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.store import AttachmentStore


def build_attachments(settings: MochiSettings, cluster: Cluster | None) -> AttachmentStore:  # noqa: ARG001 - files, wherever sessions are
    """Build the store of attachments; opens nothing."""
    return FileAttachmentStore(settings.resolved_data_dir / "attachments")
