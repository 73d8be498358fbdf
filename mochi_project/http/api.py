"""Serves the ``/health`` routes."""

from django.http import HttpRequest

from mochi_project.guard.guard import is_admitted
from mochi_project.http.health import HealthOut, ReadyOut, health, ready
from mochi_project.routing import Router, needs
from sessions_app.errors import MochiError
from sessions_app.http.error_schemas import ErrorResponse

router = Router(scope="read", tags=["server"])


@router.get(
    "/health",
    response=HealthOut,
    operation_id="health",
    exclude_unset=True,
    summary="Health of the server",
    description="Answers within two seconds and needs no token: who may not use the API gets the "
    "`status` alone.",
)
@needs(token=False)
async def health_route(request: HttpRequest) -> HealthOut:
    """Report whether the server works, and to its own clients what it depends on."""
    is_stranger = not is_admitted(getattr(request, "scope", {}))
    return HealthOut(status="ok") if is_stranger else await health()


@router.get(
    "/health/ready",
    response={200: ReadyOut, 503: ErrorResponse, 507: ErrorResponse},
    operation_id="ready",
    summary="Readiness of the server",
    description=(
        "200 while this process takes requests; 503 `SHUTTING_DOWN` once it is about to stop, and "
        "507 `STORAGE_READ_ONLY` when it can't write to its data directory; 503 "
        "`STORAGE_UNAVAILABLE` or 507 `STORAGE_FULL` when it can't reach, or not write to, what it "
        "shares with other machines; `not_ready` in the "
        "error's `details` lists all that is not ready. Does not ask models. "
        "Needs no token: who may not use the API is told the code alone."
    ),
)
@needs(token=False)
async def ready_route(request: HttpRequest) -> ReadyOut:
    """Report whether requests should be sent here, and to the server's own clients why not."""
    try:
        return await ready()
    except MochiError as problem:
        if not is_admitted(getattr(request, "scope", {})):
            problem.message, problem.details = "This process takes no requests now.", {}
        raise
