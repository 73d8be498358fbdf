"""Reports dead web processes of this machine to other machines immediately.

Otherwise their turns would be ended only after their leases expired.
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cluster_app.connections import POOL_VARIABLE, Cluster, process_name
from cluster_app.settings import ClusterSettings
from mochi_project.configuration.config import ServerSettings
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.25
END_SECONDS = 3.0


@contextmanager
def condemning_dead(settings: ServerSettings) -> Iterator[Callable[[int], None]]:
    """Yield a callback for the number of each dead process, which declares its lease dead.

    Processes started in the block get numbers from which their leases' names are derived.
    """
    own = settings.of(ClusterSettings)
    cluster = Cluster(own)
    pool = os.environ[POOL_VARIABLE] = secrets.token_hex(8)
    threads: list[threading.Thread] = []

    def condemn(process: int) -> None:
        thread = threading.Thread(
            target=_condemn, args=(cluster, process_name(pool, process), own.lease_seconds)
        )
        thread.daemon = True
        threads.append(thread)
        thread.start()

    try:
        yield condemn
    finally:
        deadline = time.monotonic() + END_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _condemn(cluster: Cluster, name: str, lease_seconds: float) -> None:
    """Declare a process dead; retry as long as its lease may not have expired."""
    deadline = time.monotonic() + lease_seconds
    while True:
        try:
            cluster.owners.condemn_process(name)
        except StorageError as error:
            if time.monotonic() < deadline:
                time.sleep(RETRY_SECONDS)
                continue
            logger.warning("a dead process keeps its lease", extra={"reason": error.message})
        return
