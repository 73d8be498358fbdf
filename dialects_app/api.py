"""Serves the ``/v1`` routes: parses, calls, encodes, as OpenAI's protocols want it.

They are an API beside the server's own one (docs/decisions/0059).
"""

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router

from dialects_app.models_list import ModelListOut, model_out
from mochi_project.wiring.services import get_services

router = Router(tags=["OpenAI"])


@router.get(
    "/models",
    response={200: None},
    summary="List models in OpenAI's shape",
    operation_id="openai_list_models",
)
async def list_models(request: HttpRequest) -> HttpResponse:
    """List the models that can chat."""
    listing = await get_services().models.listing()
    return _json(ModelListOut(data=[model_out(info) for info in listing.models]))


@router.get(
    "/models/{path:model_name}",
    response={200: None, 404: None},
    summary="Get a model in OpenAI's shape",
    operation_id="openai_get_model",
)
async def get_model(request: HttpRequest, model_name: str) -> HttpResponse:
    """Return one model. The name may hold `/` and `:`, as they are or URL-encoded."""
    return _json(model_out(await get_services().models.get(model_name), name=model_name))


def _json(value: msgspec.Struct) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(value), content_type="application/json")
