"""The ``/models`` routes: parse, call, encode."""

from django.http import HttpRequest
from ninja import Router

from mochi_project.services import get_services
from models_app.catalogue import ModelListing
from models_app.language_model import ModelInfo
from models_app.schemas import ModelListOut, ModelOut
from sessions_app.schemas import ErrorResponse

router = Router(tags=["models"])


@router.get(
    "/models",
    response={200: ModelListOut, 502: ErrorResponse},
    summary="List models",
    description=(
        "The models that can chat (those with the capability `completion`) of every configured "
        "provider, Ollama's first. A provider that fails or is silent for two seconds is listed "
        "under `unavailable`; 502 when Ollama is the only provider and can't be asked."
    ),
    operation_id="list_models",
)
async def list_models(request: HttpRequest) -> ModelListing:
    """List the models that can chat."""
    return await get_services().models.listing()


@router.get(
    "/models/{path:model_name}",
    response={200: ModelOut, (404, 502): ErrorResponse},
    summary="Get a model",
    description="One model by name. The name may hold `/` and `:`, as they are or URL-encoded.",
    operation_id="get_model",
)
async def get_model(request: HttpRequest, model_name: str) -> ModelInfo:
    """Return what is known of one model."""
    return await get_services().models.get(model_name)
