"""Serves metrics as JSON, for programs that don't parse Prometheus's text format."""

import asyncio
from typing import Any

from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, Field

from mochi_project.app import service
from mochi_project.reachability import queue_age
from mochi_project.routing import Router
from sessions_app.errors import MochiError
from sessions_app.http.error_schemas import ENVELOPE
from usage_app.observers import Observers

_EXAMPLE: dict[str, Any] = {
    "metrics": {
        "mochi_turns_total": [
            {"labels": {"status": "completed", "dialect": "native"}, "value": 42.0}
        ],
        "mochi_active_turns": [{"labels": {}, "value": 1.0}],
    }
}


class MetricValueOut(BaseModel):
    """A value of a metric."""

    labels: dict[str, str]
    value: float


class MetricsOut(BaseModel):
    """The metrics of all processes of the server."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    metrics: dict[str, list[MetricValueOut]] = Field(
        description="The values by the metric's name; of a histogram its `_sum` and `_count`"
    )


class MetricsOff(MochiError):
    """Metrics are disabled."""

    code = "NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("Metrics are off. MOCHI_METRICS=true switches them on.")


router = Router(scope="metrics", tags=["server"])


@router.get(
    "/metrics",
    response={200: MetricsOut, 404: ENVELOPE},
    summary="Metrics as JSON",
    description=(
        "What Prometheus reads at `/metrics`, for dashboards that read JSON: all processes' "
        "values by name. 404 unless `MOCHI_METRICS` is on."
    ),
    operation_id="get_metrics",
)
async def get_metrics(request: HttpRequest) -> Any:
    """Return the metrics of all processes."""
    meters = service(Observers).meters
    if meters is None:
        raise MetricsOff
    age = await queue_age()
    return {"metrics": await asyncio.to_thread(lambda: meters.values(queue_age=age))}
