"""Builds the records of prompts, profiles, failed summaries and retention."""

from pathlib import Path

from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster
from sessions_app.store.file_records import FileRecords
from sessions_app.store.records import DOCUMENT_LIMIT, Records


def _build(
    folder: str, directory: Path, cluster: Cluster | None, *, durable: bool = True
) -> Records:
    """Build records; opens nothing.

    Args:
        folder: The folder in an object store.
        directory: The directory, if they are stored as files.
        cluster: The connections shared with other machines, if any.
        durable: Whether files must survive a power cut.
    """
    if cluster is not None and (objects := cluster.objects) is not None:
        from cluster_app.objects.records import ObjectRecords  # noqa: PLC0415 - an extra

        return ObjectRecords(objects.under(folder), limit=DOCUMENT_LIMIT)
    return FileRecords(directory, limit=DOCUMENT_LIMIT, durable=durable)


def build_prompts(settings: MochiSettings, cluster: Cluster | None) -> Records:
    """Build the records of system prompts; opens nothing."""
    return _build("prompts", settings.resolved_system_prompts_dir, cluster)


def build_profiles(settings: MochiSettings, cluster: Cluster | None) -> Records:
    """Build the records of profiles; opens nothing."""
    return _build("profiles", settings.resolved_data_dir / "profiles", cluster)


def build_failures(settings: MochiSettings, cluster: Cluster | None) -> Records:
    """Build the records of failed summaries; opens nothing."""
    return _build("summaries", settings.resolved_state_dir / "summaries", cluster, durable=False)


def build_retention(settings: MochiSettings, cluster: Cluster | None) -> Records:
    """Build the records of the numbers of expired sessions; opens nothing."""
    return _build("retention", settings.resolved_state_dir / "retention", cluster, durable=False)
