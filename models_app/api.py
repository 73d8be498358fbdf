"""Serves the ``/models`` and ``/profiles`` routes: parse, call, encode."""

import asyncio

import msgspec
from django.http import HttpRequest
from ninja import Status

from mochi_project.app import service
from mochi_project.routing import Router, needs
from models_app.catalogue import ModelCatalogue, ModelListing
from models_app.language_model import ModelInfo
from models_app.names import is_permitted
from models_app.profile_schemas import (
    ProfileCreateIn,
    ProfileListOut,
    ProfileOut,
    ProfileUpdateIn,
)
from models_app.profiles import Profile, ProfileListing, profile_from
from models_app.schemas import ModelListOut, ModelOut
from sessions_app.errors import ValidationFailed
from sessions_app.http.error_schemas import ENVELOPE

router = Router(scope="read", tags=["models"])


@router.get(
    "/models",
    response={200: ModelListOut, 502: ENVELOPE},
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
    return await service(ModelCatalogue).listing()


@router.get(
    "/models/{path:model_name}",
    response={200: ModelOut, (404, 502): ENVELOPE},
    summary="Get a model",
    description="One model by name. The name may hold `/` and `:`, as they are or URL-encoded.",
    operation_id="get_model",
)
async def get_model(request: HttpRequest, model_name: str) -> ModelInfo:
    """Return one model."""
    return await service(ModelCatalogue).get(model_name)


@router.get(
    "/profiles",
    response={200: ProfileListOut},
    summary="List profiles",
    description=(
        "Named model configurations: `profile:<name>` is a model. Files that are none are listed "
        "under `unreadable`."
    ),
    operation_id="list_profiles",
    tags=["profiles"],
)
async def list_profiles(request: HttpRequest) -> ProfileListing:
    """List the profiles."""
    listing = await asyncio.to_thread(service(ModelCatalogue).profiles.list)
    mine = [each for each in listing.profiles if is_permitted(f"profile:{each.name}")]
    return msgspec.structs.replace(listing, profiles=mine)


@router.post(
    "/profiles",
    response={201: ProfileOut, (404, 409, 422, 507): ENVELOPE},
    summary="Create a profile",
    description=(
        "409 `PROFILE_EXISTS` when the name is taken, 404 `MODEL_NOT_FOUND` when its provider does "
        "not have the model; when the provider can't be reached, it is created anyway. Address "
        "and key must be configured together; others can be written into the file by hand."
    ),
    operation_id="create_profile",
    tags=["profiles"],
)
@needs(scope="admin")
async def create_profile(request: HttpRequest, body: ProfileCreateIn) -> Status[Profile]:
    """Create a profile."""
    models = service(ModelCatalogue)
    profile = profile_from(body.name, body.model_dump(exclude={"name"}))
    await models.check_profile(profile)
    created = await asyncio.to_thread(models.profiles.create, profile)
    models.forget_profile(body.name)
    return Status(201, created)


@router.get(
    "/profiles/{name}",
    response={200: ProfileOut, (404, 422): ENVELOPE},
    summary="Get a profile",
    operation_id="get_profile",
    tags=["profiles"],
)
async def get_profile(request: HttpRequest, name: str) -> Profile:
    """Return one profile."""
    return await asyncio.to_thread(service(ModelCatalogue).profiles.get, name)


@router.put(
    "/profiles/{name}",
    response={200: ProfileOut, (404, 422, 507): ENVELOPE},
    summary="Update a profile",
    description="Replaces it whole. Sessions that name it are answered by the new one at once.",
    operation_id="update_profile",
    tags=["profiles"],
)
@needs(scope="admin")
async def update_profile(request: HttpRequest, name: str, body: ProfileUpdateIn) -> Profile:
    """Replace a profile."""
    models = service(ModelCatalogue)
    if body.name not in (None, name):
        raise ValidationFailed("A profile's name can't be changed; create another.", field="name")
    profile = profile_from(name, body.model_dump(exclude={"name"}))
    await models.check_profile(profile, replaces=True)
    updated = await asyncio.to_thread(models.profiles.update, profile)
    models.forget_profile(name)
    return updated


@router.delete(
    "/profiles/{name}",
    response={204: None, (404, 422): ENVELOPE},
    summary="Delete a profile",
    description="Sessions that name it get 404 `PROFILE_NOT_FOUND` until they name another model.",
    operation_id="delete_profile",
    tags=["profiles"],
)
@needs(scope="admin")
async def delete_profile(request: HttpRequest, name: str) -> Status[None]:
    """Remove a profile."""
    models = service(ModelCatalogue)
    await asyncio.to_thread(models.profiles.delete, name)
    models.forget_profile(name)
    return Status(204, None)
