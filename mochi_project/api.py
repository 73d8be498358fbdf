"""Assembles the HTTP API: the apps' routers, ``/health``, and the OpenAPI schema."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from ninja.openapi.schema import OpenAPISchema

from agents_app.api import router as agents_router
from chat.activity.api import router as activity_router
from chat.api import router as chat_router
from chat.approvals.api import router as approvals_router
from chat.summaries.api import router as summaries_router
from dialects_app.ag_ui.api import router as agui_router
from dialects_app.ag_ui.description import body_schemas
from dialects_app.ai_sdk.api import router as ai_sdk_router
from mochi_project.errors.handlers import ForgetfulAPI, install_error_handlers
from mochi_project.http.docs_page import PackagedSwagger
from mochi_project.http.health import HealthOut, ReadyOut, health, ready
from mochi_project.http.openapi import describe_common_answers
from mochi_project.http.openapi_components import shape_components
from mochi_project.http.strict_json import StrictJsonParser
from mochi_project.version import VERSION
from models_app.api import router as models_router
from prompts_app.api import router as prompts_router
from search_app.api import router as search_router
from sessions_app.api import router as sessions_router
from sessions_app.editing.api import router as editing_router
from sessions_app.http.error_schemas import ErrorResponse
from sessions_app.uploads.api import router as attachments_router
from tools_app.api import router as tools_router
from transfer_app.api import router as archive_router
from usage_app.api import router as usage_router
from usage_app.budgets.api import router as budgets_router
from usage_app.metrics.api import router as metrics_router


class MochiAPI(ForgetfulAPI):
    """Ninja's API; its schema has what all routes have in common."""

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Return what a route's answer is put into: with no text, which would be encoded first."""
        return HttpResponse(content_type=self.get_content_type())

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """Return the schema, with the answers of the guard and the error handlers, and ``/v1``."""
        schema = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        schema["components"]["schemas"].update(body_schemas())
        describe_common_answers(schema)
        from mochi_project.openai_api import openai_schema  # noqa: PLC0415 - not for the start

        others = openai_schema()
        schema["paths"].update(others["paths"])
        schema["components"]["schemas"].update(others["components"]["schemas"])
        shape_components(schema)
        return schema


api = MochiAPI(
    title="mochi-server",
    version=VERSION,
    description=(
        "Conversations with language models: sessions as plain files, answers as server-sent "
        'events. Every error is `{"error": {code, message, details}}`.'
    ),
    docs=PackagedSwagger(),
    docs_decorator=require_safe,
    parser=StrictJsonParser(),
    urls_namespace="api",
)
install_error_handlers(api)


@api.get(
    "/health",
    response=HealthOut,
    tags=["server"],
    operation_id="health",
    summary="Health of the server",
    description="Answers within two seconds and needs no token.",
)
async def health_route(request: HttpRequest) -> HealthOut:
    """Report whether the server works, and whether Ollama answers."""
    return await health()


@api.get(
    "/health/ready",
    response={200: ReadyOut, 503: ErrorResponse, 507: ErrorResponse},
    tags=["server"],
    operation_id="ready",
    summary="Readiness of the server",
    description=(
        "200 while this process takes requests; 503 `SHUTTING_DOWN` once it is about to stop, and "
        "507 `STORAGE_READ_ONLY` when it can't write to its data directory; 503 "
        "`STORAGE_UNAVAILABLE` or 507 `STORAGE_FULL` when it can't reach, or not write to, what it "
        "shares with other machines; `not_ready` in the "
        "error's `details` lists all that is not ready. Does not ask models. "
        "Needs no token."
    ),
)
async def ready_route(request: HttpRequest) -> ReadyOut:
    """Report whether requests should be sent here."""
    return await ready()


# Django tries paths in this order: a first token waits for those before its route.
for _router in (
    chat_router,
    approvals_router,
    summaries_router,
    sessions_router,
    activity_router,
    editing_router,
    archive_router,
    search_router,
    attachments_router,
    agui_router,
    agents_router,
    tools_router,
    prompts_router,
    models_router,
    ai_sdk_router,
    usage_router,
    budgets_router,
    metrics_router,
):
    api.add_router("", _router)
