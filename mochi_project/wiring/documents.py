"""Builds the stores of prompts, profiles and small records."""

from pathlib import Path

from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster
from sessions_app.store.documents import Documents, FileDocuments


def _build(
    folder: str, directory: Path, cluster: Cluster | None, *, durable: bool = True
) -> Documents:
    """Build what keeps documents; opens nothing.

    Args:
        folder: Where they are in an object store.
        directory: Where they are otherwise.
        cluster: What is shared with other machines.
        durable: Whether files shall survive a power cut.
    """
    if cluster is not None and (objects := cluster.objects) is not None:
        from sessions_app.store.objects.documents import (  # noqa: PLC0415 - an extra
            ObjectDocuments,
        )

        return ObjectDocuments(objects.under(folder))
    return FileDocuments(directory, durable=durable)


def build_prompts(settings: MochiSettings, cluster: Cluster | None) -> Documents:
    """Build what keeps system prompts; opens nothing."""
    return _build("prompts", settings.resolved_system_prompts_dir, cluster)


def build_profiles(settings: MochiSettings, cluster: Cluster | None) -> Documents:
    """Build what keeps profiles; opens nothing."""
    return _build("profiles", settings.resolved_data_dir / "profiles", cluster)


def build_failures(settings: MochiSettings, cluster: Cluster | None) -> Documents:
    """Build what keeps the summaries that could not be made; opens nothing."""
    return _build("summaries", settings.resolved_state_dir / "summaries", cluster, durable=False)


def build_retention(settings: MochiSettings, cluster: Cluster | None) -> Documents:
    """Build what keeps how many sessions were deleted for their age; opens nothing."""
    return _build("retention", settings.resolved_state_dir / "retention", cluster, durable=False)
