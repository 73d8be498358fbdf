"""Builds the change log."""

from chat.storage.change_log import ChangeLog
from chat.storage.files.change_log import FileChangeLog
from chat.storage.files.watcher import PathWatcher
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster

CHANGE_SECONDS = 0.1
"""The interval at which a process with listeners polls for changes by other processes."""


def build_changes(settings: MochiSettings, cluster: Cluster | None) -> ChangeLog:
    """Build the change log of people's sessions; opens nothing."""
    if cluster is None:
        return FileChangeLog(settings.resolved_state_dir / "changes", PathWatcher(CHANGE_SECONDS))
    from cluster_app.redis.change_log import RedisChangeLog  # noqa: PLC0415 - an extra

    return RedisChangeLog(cluster.connection, cluster.hub)
