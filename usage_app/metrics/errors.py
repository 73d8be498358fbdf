"""Defines the errors of metrics."""

from sessions_app.errors import MochiError


class MetricsOff(MochiError):
    """Metrics are disabled."""

    code = "NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("Metrics are off. MOCHI_METRICS=true switches them on.")
