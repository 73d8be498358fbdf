"""Serves the ``/v1`` routes of OpenAI's protocols: parses, calls, encodes.

They are a separate API of the server (docs/decisions/0059).
"""

from collections.abc import Mapping

import msgspec
from django.http import HttpRequest, HttpResponse

from dialects_app import models_list
from dialects_app.models_list import Kind, ModelListOut, model_out
from dialects_app.shared.warnings import warning_headers
from mochi_project.app import service
from mochi_project.routing import Router
from models_app.catalogue import ModelCatalogue

router = Router(access="chat", tags=["OpenAI"])

CONTENT_TYPE = "application/json; charset=utf-8"


@router.get(
    "/models",
    response={200: None, (429, 502): None},
    summary="List models in OpenAI's shape",
    operation_id="openai_list_models",
)
async def list_models(request: HttpRequest, kind: Kind | None = None) -> HttpResponse:
    """List chat models, `profile:<name>` and `agent:<name>`, or one kind of them.

    A provider that fails, or does not respond within two seconds, is left out; `x-mochi-warning`
    names it.
    """
    listed = await models_list.list_models(service(ModelCatalogue), kind)
    return _json(ModelListOut(data=listed.models), warning_headers(listed.left_out))


@router.get(
    "/models/{path:model_name}",
    response={200: None, (404, 429, 502): None},
    summary="Get a model in OpenAI's shape",
    operation_id="openai_get_model",
)
async def get_model(request: HttpRequest, model_name: str) -> HttpResponse:
    """Return one model. The name may hold `/` and `:`, as they are or URL-encoded."""
    return _json(model_out(await service(ModelCatalogue).get(model_name), name=model_name))


def _json(value: msgspec.Struct, headers: Mapping[str, str] | None = None) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(value), content_type=CONTENT_TYPE, headers=headers)
