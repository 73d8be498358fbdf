"""Builds the metrics for Prometheus, if they are switched on."""

import logging
import os
from typing import TYPE_CHECKING

from mochi_project.configuration.config import MochiSettings
from mochi_project.version import VERSION

if TYPE_CHECKING:
    from usage_app.metrics.meters import Meters

logger = logging.getLogger(__name__)


def build_meters(settings: MochiSettings) -> "Meters | None":
    """Build the meters and join those of other processes; None where metrics are off."""
    if not settings.metrics:
        return None
    from usage_app.metrics.shared_files import SharedFiles  # noqa: PLC0415 - for who counts

    files = SharedFiles(settings.resolved_private_dir / "metrics")
    try:
        files.open()
    except OSError as error:
        logger.error("nothing is counted: %s can't be written to (%s)", files.directory, error)  # noqa: TRY400
        return None
    # Prometheus's client looks for this when it is imported, and with each new file.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(files.directory)
    from usage_app.metrics.meters import Meters, counts_in_files  # noqa: PLC0415 - an extra

    if not counts_in_files():
        logger.error("metrics are of this process alone: prometheus_client was imported before")
    return Meters(files, version=VERSION)
