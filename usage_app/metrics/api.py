"""Serves metrics as JSON, for programs that don't parse Prometheus's text format."""

import asyncio
from typing import Any

from django.http import HttpRequest

from mochi_project.app import service
from mochi_project.reachability import Stores
from mochi_project.routing import Router
from sessions_app.http.error_schemas import ENVELOPE
from usage_app.metrics.errors import MetricsOff
from usage_app.metrics.schemas import MetricsOut
from usage_app.observers import Observers

router = Router(access="manage", tags=["server"])


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
    age = await service(Stores).queue_age()
    return {"metrics": await asyncio.to_thread(lambda: meters.values(queue_age=age))}
