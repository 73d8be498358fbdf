"""Builds the Prometheus metrics, if enabled."""

import logging
import os
from typing import TYPE_CHECKING

from mochi_project.configuration.config import MochiSettings
from mochi_project.version import VERSION

if TYPE_CHECKING:
    from usage_app.metrics.meters import Meters

logger = logging.getLogger(__name__)


def build_meters(settings: MochiSettings) -> "Meters | None":
    """Build the meters, merged with those of other processes; return None if metrics are off."""
    if not settings.metrics:
        return None
    from usage_app.metrics.shared_files import SharedFiles  # noqa: PLC0415 - for who counts

    files = SharedFiles(settings.resolved_private_dir / "metrics")
    try:
        files.open()
    except OSError as error:
        logger.error("nothing is counted: %s can't be written to (%s)", files.directory, error)  # noqa: TRY400
        return None
    # The Prometheus client reads this when it is imported, and for each new file.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(files.directory)
    from usage_app.metrics.meters import Meters, counts_in_files  # noqa: PLC0415 - an extra

    if not counts_in_files():
        logger.error("metrics are of this process alone: prometheus_client was imported before")
    return Meters(files, version=VERSION)
