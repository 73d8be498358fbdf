"""Declares the settings of metrics and traces."""

from typing import Annotated

from pydantic import AfterValidator, Field

from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.extras import require_extra

_OTEL = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def _with_prometheus(value: bool) -> bool:
    if value:
        require_extra("metrics", ("prometheus_client",))
    return value


def _with_otel(value: bool) -> bool:
    if value:
        require_extra("otel", _OTEL)
    return value


Metrics = Annotated[bool, AfterValidator(_with_prometheus)]
Traces = Annotated[bool, AfterValidator(_with_otel)]


class UsageSettings(AppSettings):
    """Holds what is measured, beside usage."""

    metrics: Metrics = Field(False, description="Count turns, tokens, tools, ... at `/metrics`")
    metrics_by_owner: bool = Field(
        False, description="Count turns, tokens and costs also by the owner of data, of up to 200"
    )
    traces: Traces = Field(
        False, description="Send a trace of each turn by OTLP, where the `OTEL_` variables say"
    )
