"""How a route of Ninja's runs here: as Ninja runs it, without what comes to nothing.

Ninja makes a response before it calls the route, in case the route wants to set headers on it, and
puts path and headers through models of pydantic, also when they have nothing to check. For a chat
request that was half of Ninja's cost.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pydantic
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja.operation import AsyncOperation
from ninja.params.models import HeaderModel, ParamModel, PathModel

Run = Callable[..., Any]


def without_detours(run: Run) -> Run:
    """Decorate an operation's ``run``: a decorator of Ninja's, for ``mode="view"``.

    Operations that use what is left out here (authentication, throttles, Ninja's own streams, a
    ``response`` argument) and sync ones run as they did.
    """
    operation = getattr(run, "__self__", None)
    if not isinstance(operation, AsyncOperation) or (
        operation.auth_callbacks
        or operation.throttle_objects
        or operation.stream_format
        or operation.signature.response_arg
    ):
        return run
    read_arguments = _reader_of(operation)
    api = operation.api

    async def run_directly(request: HttpRequest, **path: Any) -> HttpResponseBase:
        try:
            view: Callable[..., Awaitable[Any]] = operation.view_func
            result = await view(request, **read_arguments(request, path))
            if isinstance(result, HttpResponseBase):
                return result
            unsent = api.create_temporal_response(request)
            return operation._result_to_response(request, result, unsent)  # noqa: SLF001 - no hook
        except Exception as error:  # noqa: BLE001 - Ninja's handlers answer it
            return api.on_exception(request, error)

    return run_directly


def _reader_of(
    operation: AsyncOperation,
) -> Callable[[HttpRequest, dict[str, Any]], dict[str, Any]]:
    """Return what reads a route's arguments from a request."""
    sources = [_source(model, operation) for model in operation.models]

    def read_arguments(request: HttpRequest, path: dict[str, Any]) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        try:
            for source in sources:
                arguments.update(source(request, path))
        except pydantic.ValidationError:
            # Once more, by Ninja: it tells everything that is wrong, not only the first source's.
            return operation._get_values(request, path, None)  # type: ignore[arg-type]  # noqa: SLF001
        return arguments

    return read_arguments


def _source(
    model: type[ParamModel], operation: AsyncOperation
) -> Callable[[HttpRequest, dict[str, Any]], dict[str, Any]]:
    """Return what reads the arguments of one source: path, query, headers or body."""
    if issubclass(model, PathModel) and _takes_any_text(model):
        return lambda _request, path: path

    def read(request: HttpRequest, path: dict[str, Any]) -> dict[str, Any]:
        return vars(model.resolve(request, operation.api, path))

    if not issubclass(model, HeaderModel):
        return read
    try:
        absent = vars(model.model_validate({}))
    except pydantic.ValidationError:  # one of them must be sent
        return read
    names = {name.lower().encode() for name in model.__ninja_flatten_map__}

    def read_headers(request: HttpRequest, path: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(request, ASGIRequest):
            return read(request, path)
        for name, _ in request.scope["headers"]:
            if name in names:
                return read(request, path)
        return absent

    return read_headers


def _takes_any_text(model: type[ParamModel]) -> bool:
    """Whether a model of path parameters lets every text through as it is."""
    return all(
        field.annotation is str
        and not field.metadata
        and model.__ninja_flatten_map__.get(name) == (name,)  # type: ignore[attr-defined]
        for name, field in model.model_fields.items()
    )
