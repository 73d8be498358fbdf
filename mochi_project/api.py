"""The HTTP API: the apps' routers, ``/health``, and what the OpenAPI schema says of all routes."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from pydantic import BaseModel, ConfigDict, Field

from agents_app.api import router as agents_router
from chat.api import router as chat_router
from mochi_project.errors.handlers import install_error_handlers
from mochi_project.http.docs_page import PackagedSwagger
from mochi_project.http.health import VERSION, health
from mochi_project.http.openapi import describe_common_answers
from mochi_project.http.strict_json import StrictJsonParser
from models_app.api import router as models_router
from prompts_app.api import router as prompts_router
from sessions_app.api import router as sessions_router
from tools_app.api import router as tools_router


class HealthOut(BaseModel):
    """Whether the server works, and what it works with."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "status": "ok",
                "ollama_connected": True,
                "ollama_host": "http://localhost:11434",
                "version": "0.1.0",
                "worker_alive": True,
                "summaries_failing": 0,
                "test_mode": False,
                "providers": ["ollama"],
            }
        }
    )

    status: str = Field(description="`ok` whenever this server works, whatever Ollama does")
    ollama_connected: bool = Field(description="Whether Ollama answered just now")
    ollama_host: str = Field(description="Ollama's URL, without credentials")
    version: str
    worker_alive: bool = Field(description="Whether the background worker runs, whoever keeps it")
    summaries_failing: int = Field(
        description="Sessions whose summary could not be made; `doctor` says why"
    )
    test_mode: bool = Field(description="Whether a scripted model answers instead of Ollama")
    providers: list[str] = Field(description="Configured providers of models")


class MochiAPI(NinjaAPI):
    """Ninja's API with what all routes have in common in its schema."""

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """Return the schema, with the answers of the guard and the error handlers."""
        schema = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        describe_common_answers(schema)
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
async def health_route(request: HttpRequest) -> HttpResponse:
    """Tell whether the server works, and whether Ollama answers."""
    return HttpResponse(await health(), content_type="application/json; charset=utf-8")


for _router in (
    sessions_router,
    chat_router,
    agents_router,
    tools_router,
    prompts_router,
    models_router,
):
    api.add_router("", _router)
