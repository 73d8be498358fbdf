"""Checks the stores shared by nodes at the start, and rejects one that would lose sessions."""

from collections.abc import Iterator

from cluster_app.connections import Cluster
from cluster_app.redis_report import RedisReport, report_on
from mochi_project.configuration.setting_errors import ConfigurationError
from sessions_app.errors import StorageError


def check_shared_stores(cluster: Cluster) -> list[str]:
    """Return warnings about the journal and the session store, one sentence each. Blocks.

    An unreachable store causes only a warning, since it may be back soon; a missing bucket will
    not be.

    Raises:
        ConfigurationError: A store can't be used; the message says why.
    """
    return [*_journal_notes(cluster), *_store_notes(cluster)]


def redis_report(cluster: Cluster) -> RedisReport:
    """Check the Redis server of the journal; raises ``StorageUnavailable``. Blocks."""
    connection = cluster.connection
    with connection.translated():
        info = connection.client.info()
    return report_on(info)


def _journal_notes(cluster: Cluster) -> Iterator[str]:
    try:
        report = redis_report(cluster)
    except StorageError as error:
        yield f"MOCHI_JOURNAL_URL: {error.message}"
        return
    if report.faults:
        raise ConfigurationError(
            f"MOCHI_JOURNAL_URL: {report.name} can't be used: {'; '.join(report.faults)}"
        )
    for note in report.notes:
        yield f"MOCHI_JOURNAL_URL: {report.name}: {note}"


def _store_notes(cluster: Cluster) -> Iterator[str]:
    if cluster.objects is None:
        return
    from cluster_app.objects.probe import (  # noqa: PLC0415 - an extra
        ConditionsIgnored,
        require_conditions,
    )
    from cluster_app.objects.store import BucketMissing  # noqa: PLC0415 - an extra

    try:
        require_conditions(cluster.objects)
    except (BucketMissing, ConditionsIgnored) as error:
        raise ConfigurationError(f"MOCHI_SESSIONS_URL: {error}") from error
    except StorageError as error:
        yield f"MOCHI_SESSIONS_URL: {error.message}"
