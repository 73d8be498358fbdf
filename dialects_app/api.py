"""Serves the models of ``/v1`` in OpenAI's and Anthropic's shapes: parses, calls, encodes.

They are a separate API of the server (docs/decisions/0059).
"""

from typing import Annotated

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Query

from dialects_app import models_list
from dialects_app.messages.models import (
    MOST_OF_A_PAGE,
    VERSION_HEADER,
    ClaudeModelOut,
    claude_model,
    page_of_models,
)
from dialects_app.models_list import Kind, ModelListOut, ModelOut, model_out
from dialects_app.shared.streams import json_response
from dialects_app.shared.warnings import warning_headers
from mochi_project.app import service
from mochi_project.routing import Router
from models_app.catalogue import ModelCatalogue

router = Router(scope="read", tags=["OpenAI"])


@router.get(
    "/models",
    response={200: None, (429, 502): None},
    summary="List models in OpenAI's shape",
    operation_id="openai_list_models",
)
async def list_models(
    request: HttpRequest,
    kind: Kind | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST_OF_A_PAGE)] = MOST_OF_A_PAGE,
    after_id: str | None = None,
    before_id: str | None = None,
) -> HttpResponse:
    """List chat models, `profile:<name>` and `agent:<name>`, or one kind of them.

    A provider that fails, or does not respond within two seconds, is left out; `x-mochi-warning`
    names it. With the header `anthropic-version` the list has Anthropic's shape, in pages.
    """
    listed = await models_list.list_models(service(ModelCatalogue), kind)
    models = [model_out(info) for info in listed.models]
    answer: msgspec.Struct = ModelListOut(data=models)
    if VERSION_HEADER in request.headers:
        claudes = [*map(_claude_model, models)]
        answer = page_of_models(claudes, limit, after_id=after_id, before_id=before_id)
    return json_response(answer, warning_headers([each.message for each in listed.unavailable]))


@router.get(
    "/models/{path:model_name}",
    response={200: None, (404, 429, 502): None},
    summary="Get a model in OpenAI's shape",
    operation_id="openai_get_model",
)
async def get_model(request: HttpRequest, model_name: str) -> HttpResponse:
    """Return one model. The name may hold `/` and `:`, as they are or URL-encoded."""
    model = model_out(await service(ModelCatalogue).get(model_name), name=model_name)
    return json_response(_claude_model(model) if VERSION_HEADER in request.headers else model)


def _claude_model(model: ModelOut) -> ClaudeModelOut:
    return claude_model(model.id, model.created, model.context_length)
