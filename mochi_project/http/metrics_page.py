"""Serves ``/metrics`` for Prometheus, if enabled."""

import asyncio

from django.http import HttpRequest, HttpResponse

from mochi_project.app import service
from mochi_project.errors.handlers import not_allowed, unknown_path_view
from mochi_project.wiring.observers import Observers
from mochi_project.wiring.reachability import Stores


async def metrics_view(request: HttpRequest) -> HttpResponse:
    """Serve the metrics of all processes as text, in Prometheus's format or in OpenMetrics."""
    meters = service(Observers).meters
    if meters is None:
        return await unknown_path_view(request)
    if request.method not in {"GET", "HEAD"}:
        return not_allowed(request.method, ["GET", "HEAD"])
    age = await service(Stores).queue_age()
    accept = request.headers.get("Accept", "")
    text, content_type = await asyncio.to_thread(lambda: meters.render(accept, queue_age=age))
    return HttpResponse(text, content_type=content_type)
