"""Converts exceptions and plain error responses to the error envelope."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError, ValidationErrorContext

from mochi_project.app import declared_apis
from mochi_project.errors import messages
from mochi_project.errors.formats import error_answer
from sessions_app.bounds import MOST_ERRORS
from sessions_app.errors import MochiError, StorageError
from sessions_app.store.atomic import raise_if_unwritable

logger = logging.getLogger(__name__)

_CONTENT_TYPE = "application/json; charset=utf-8"
_TOO_LONG_BY_A_SLASH = "There is nothing at this path; without the slash at its end there is."
_PLAIN_ERRORS: dict[int, tuple[str, str]] = {
    400: ("BAD_REQUEST", "The request makes no sense to this server."),
    401: ("UNAUTHENTICATED", messages.AUTHENTICATION_REQUIRED),
    403: ("FORBIDDEN", "This request is not allowed."),
    404: ("NOT_FOUND", "There is nothing at this path; /api/v1/docs lists what there is."),
    405: ("METHOD_NOT_ALLOWED", "This method is not allowed here."),
    408: ("REQUEST_TIMEOUT", "The request took too long to arrive."),
    413: ("PAYLOAD_TOO_LARGE", "The request's body is too large."),
    415: ("UNSUPPORTED_MEDIA_TYPE", messages.JSON_REQUIRED),
    422: ("VALIDATION_ERROR", "The request has the wrong shape or value."),
    500: ("INTERNAL_ERROR", messages.INTERNAL_ERROR),
}


class ForgetfulAPI(NinjaAPI):
    """Ninja's API, which keeps nothing of a request that it refuses (docs/decisions/0115)."""

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        """Return the error of a request, and cut what ties pydantic's errors to its frames.

        A ``ValueError`` of a validator has a traceback, whose frames hold the body and pydantic's
        error, which holds the ``ValueError`` where no garbage collector looks.
        """
        for context in error_contexts:
            refused = context.pydantic_validation_error
            refused.__traceback__ = None
            for item in refused.errors(include_url=False, include_input=False):
                cause = item.get("ctx", {}).get("error")
                while isinstance(cause, BaseException):
                    cause.__traceback__ = None
                    cause = cause.__cause__ or cause.__context__
        return super().validation_error_from_error_contexts(error_contexts)


def install_error_handlers(api: NinjaAPI) -> None:
    """Register handlers that convert every exception raised by a route to the envelope."""
    for kind, handler in _HANDLERS.items():
        api.add_exception_handler(kind, handler)


def error_response(code: str, message: str, **fields: Any) -> HttpResponse:
    """Return an error response; see ``error_answer`` for the fields."""
    answer = error_answer(code, message, **fields)
    return HttpResponse(
        answer.data, status=answer.status, content_type=_CONTENT_TYPE, headers=answer.headers
    )


def plain_error(status: int, message: str | None = None, **place: Any) -> HttpResponse:
    """Return an error response with the default code and message of a status."""
    fallback = _PLAIN_ERRORS[500] if status >= 500 else _PLAIN_ERRORS[400]
    code, default_message = _PLAIN_ERRORS.get(status, fallback)
    return error_response(code, message or default_message, status=status, **place)


def not_allowed(method: str | None, allowed: Iterable[str], **place: Any) -> HttpResponse:
    """Return a 405 response with the allowed methods in the envelope and in ``Allow``."""
    methods = sorted(allowed)
    response = error_response(
        "METHOD_NOT_ALLOWED",
        f"{method} is not allowed here; use {' or '.join(methods)}.",
        details={"allowed": methods},
        **place,
    )
    if "GET" in methods:
        methods = sorted({*methods, "HEAD"})
    response["Allow"] = ", ".join(methods)
    return response


def place_of(request: HttpRequest) -> dict[str, Any]:
    """Return what of a request says the format of its errors."""
    return {"path": request.path_info, "headers": request.headers}


def on_mochi_error(request: HttpRequest, error: Any) -> HttpResponse:
    """Return the response to a domain error, with its code and message."""
    response = error_response(
        error.code,
        error.message,
        retryable=error.retryable,
        details=error.details,
        **place_of(request),
    )
    if response.status_code >= 500:
        cause = f" ({error.__cause__})" if isinstance(error.__cause__, OSError) else ""
        logger.warning("%s: %s%s", error.code, error.message, cause)
        # private: HttpResponse._has_been_logged. Django would log the status again, as a server
        # error without the code.
        vars(response)["_has_been_logged"] = True
    return response


def on_validation_error(request: HttpRequest, error: Any) -> HttpResponse:
    """Return the response to a request with invalid parameters or an invalid body."""
    errors = [
        {"field": field_of(item["loc"]), "message": _sentence(item), "type": item["type"]}
        for item in error.errors[:MOST_ERRORS]
    ]
    count = len(error.errors)
    message = "; ".join(f"{item['field']}: {item['message']}" for item in errors[:3])
    if count > 3:
        message += f"; and {count - 3} more"
    return error_response(
        "VALIDATION_ERROR",
        message,
        details={"field": errors[0]["field"], "errors": errors, "error_count": count},
        **place_of(request),
    )


def on_http_error(request: HttpRequest, error: Any) -> HttpResponse:
    """Return the response to a request that Ninja rejects, such as an unparsable body."""
    if isinstance(error.__cause__, MochiError):
        return on_mochi_error(request, error.__cause__)
    return plain_error(error.status_code, error.message, **place_of(request))


def on_not_found(request: HttpRequest, _error: Any) -> HttpResponse:
    """Return the response to Django's ``Http404``."""
    return plain_error(404, **place_of(request))


def on_suspicious_operation(request: HttpRequest, error: Any) -> HttpResponse:
    """Return the response to a request that Django rejects as malformed."""
    logger.warning("suspicious request: %s", error)
    return plain_error(400, **place_of(request))


def on_os_error(request: HttpRequest, error: Any) -> HttpResponse:
    """Return a storage error if a disk or directory can't be used, else ``INTERNAL_ERROR``."""
    try:
        raise_if_unwritable(error)
    except StorageError as storage_error:
        return on_mochi_error(request, storage_error)
    return on_unexpected_error(request, error)


def on_unexpected_error(request: HttpRequest, error: Any) -> HttpResponse:
    """Log the traceback of an unexpected exception; return a response without its details."""
    logger.error("%s %s failed", request.method, request.path, exc_info=error)
    return plain_error(500, **place_of(request))


_HANDLERS: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
    MochiError: on_mochi_error,
    ValidationError: on_validation_error,
    HttpError: on_http_error,
    Http404: on_not_found,
    SuspiciousOperation: on_suspicious_operation,
    OSError: on_os_error,
    Exception: on_unexpected_error,
}


def field_of(loc: Iterable[str | int]) -> str:
    """Return the dotted path of a field in the request.

    Ninja prepends the source (``body``, ``query``, ...), and for a body also the name of the
    route's parameter: ``("body", "payload", "options", "seed")`` becomes ``options.seed``.
    Pydantic appends ``[key]`` if the key itself is invalid. A long key is cut.
    """
    source, *path = loc
    if source in {"body", "form"}:
        path = path[1:]
    return ".".join(str(part)[:100] for part in path if part != "[key]") or str(source)


def _view_of(status: int) -> Callable[..., HttpResponse]:
    """Return the view that Django calls for a status: ``handler404``."""

    def view(request: HttpRequest, exception: Any = None) -> HttpResponse:  # noqa: ARG001
        return plain_error(status, **place_of(request))

    return view


bad_request_view, forbidden_view = _view_of(400), _view_of(403)
not_found_view, server_error_view = _view_of(404), _view_of(500)


async def unknown_path_view(request: HttpRequest) -> HttpResponse:
    """Return 404 for a path without a route: the last entry of the URL configuration."""
    path = request.path_info
    message = _TOO_LONG_BY_A_SLASH if _is_route_without_slash(path) else _off(path)
    return plain_error(404, message, **place_of(request))


def _off(path: str) -> str | None:
    """Return a sentence that says what switches the API of a path on; None if it is not off."""
    names = (f"MOCHI_{api.setting.upper()}" for api in declared_apis() if api.is_off_at(path))
    return next((f"This is off; {name}=true switches it on." for name in names), None)


def _is_route_without_slash(path: str) -> bool:
    """Return whether there is a route for the path without the slash at its end.

    Only below the APIs: files of the chat page may have any name.
    """
    if not path.endswith("/") or not path.startswith(("/api/", "/v1/")):
        return False
    try:
        return resolve(path[:-1]).func is not unknown_path_view
    except Resolver404:
        return False


def _sentence(item: dict[str, Any]) -> str:
    if item["type"] == "extra_forbidden":
        return "is not a field of this request; check the spelling"
    return str(item["msg"]).removeprefix("Value error, ")
