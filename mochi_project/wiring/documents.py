"""Builds the stores of prompts, profiles and small records."""

from pathlib import Path

from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster
from sessions_app.store.documents import Documents, FileDocuments


def _build(
    folder: str, directory: Path, cluster: Cluster | None, *, durable: bool = True
) -> Documents:
    """Build a store of documents; opens nothing.

    Args:
        folder: The folder in an object store.
        directory: The directory, if they are stored as files.
        cluster: The connections shared with other machines, if any.
        durable: Whether files must survive a power cut.
    """
    if cluster is not None and (objects := cluster.objects) is not None:
        from cluster_app.objects.documents import (  # noqa: PLC0415 - an extra
            ObjectDocuments,
        )

        return ObjectDocuments(objects.under(folder))
    return FileDocuments(directory, durable=durable)


def build_prompts(settings: MochiSettings, cluster: Cluster | None) -> Documents:
    """Build the store of system prompts; opens nothing."""
    return _build("prompts", settings.resolved_system_prompts_dir, cluster)


def build_profiles(settings: MochiSettings, cluster: Cluster | None) -> Documents:
    """Build the store of profiles; opens nothing."""
    return _build("profiles", settings.resolved_data_dir / "profiles", cluster)


def build_failures(settings: MochiSettings, cluster: Cluster | None) -> Documents:
    """Build the store of failed summaries; opens nothing."""
    return _build("summaries", settings.resolved_state_dir / "summaries", cluster, durable=False)


def build_retention(settings: MochiSettings, cluster: Cluster | None) -> Documents:
    """Build the store of the numbers of expired sessions; opens nothing."""
    return _build("retention", settings.resolved_state_dir / "retention", cluster, durable=False)
