"""Builds the tracing if enabled; otherwise imports nothing of it."""

import os
from typing import TYPE_CHECKING

from mochi_project.configuration.config import MochiSettings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.version import VERSION

if TYPE_CHECKING:
    from mochi_project.asgi_types import ASGIApp
    from usage_app.traces.service import TraceService


def build_traces(settings: MochiSettings) -> "TraceService | None":
    """Build the tracing of this process; return None if it is off. Opens nothing.

    Raises:
        ConfigurationError: An ``OTEL_`` variable has an unusable value.
    """
    if not settings.traces:
        return None
    from usage_app.traces.options import exporter_names  # noqa: PLC0415 - an extra
    from usage_app.traces.service import TraceService  # noqa: PLC0415 - an extra

    try:
        exporter_names(os.environ)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return TraceService(VERSION)


def with_incoming_traces(settings: MochiSettings, app: "ASGIApp") -> "ASGIApp":
    """Wrap an application so that its turns continue their clients' traces, if enabled."""
    if not settings.traces:
        return app
    from usage_app.traces.propagation import IncomingTraces  # noqa: PLC0415 - an extra

    return IncomingTraces(app)
