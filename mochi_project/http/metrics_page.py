"""Serves ``/metrics`` for Prometheus, if enabled."""

from django.http import HttpRequest, HttpResponse

from mochi_project.app import service
from mochi_project.errors.handlers import not_allowed, unknown_path_view
from mochi_project.reachability import queue_age
from mochi_project.routing import needs
from mochi_project.telemetry import Telemetry


@needs(scope="metrics")
async def metrics_view(request: HttpRequest) -> HttpResponse:
    """Serve the metrics of all processes as text, in Prometheus's format or in OpenMetrics."""
    age = await queue_age()
    metrics = await service(Telemetry).metrics(request.headers.get("Accept", ""), queue_age=age)
    if metrics is None:
        return await unknown_path_view(request)
    if request.method not in {"GET", "HEAD"}:
        return not_allowed(request.method, ["GET", "HEAD"])
    text, content_type = metrics
    return HttpResponse(text, content_type=content_type)
