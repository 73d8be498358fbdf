"""Converts errors of Ninja and Django to the envelope, and waits for streams to begin.

A stream that has not begun can still fail with an error response. The innermost middleware waits
for it, so that Ninja and most of Django finish during the model request (docs/decisions/0095).
"""

from collections.abc import Awaitable, Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase, HttpResponseNotAllowed
from django.utils.decorators import async_only_middleware

from mochi_project.errors.handlers import not_allowed, on_mochi_error, place_of, plain_error
from mochi_project.errors.statuses import ERROR_HEADER
from sessions_app.errors import MochiError

GetResponse = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@async_only_middleware
def envelope_middleware(get_response: GetResponse) -> GetResponse:
    """Treat an empty POST body as ``{}``, and put plain error responses into the envelope.

    An async function and not a class with hooks: Django runs hooks in a thread.
    """

    async def middleware(request: HttpRequest) -> HttpResponseBase:
        if request.method == "POST" and not request.body:
            # private: HttpRequest._body. Ninja doesn't call the parser for an empty body, so the
            # parser can't supply a default.
            request._body = b"{}"  # noqa: SLF001
        response = await get_response(request)
        if hasattr(response, "ready"):
            try:
                await response.ready()
            except MochiError as error:
                return on_mochi_error(request, error)
        if response.status_code < 400 or response.streaming or _says_its_code(response):
            return response
        if isinstance(response, HttpResponseNotAllowed):
            allowed = response["Allow"].split(", ")
            return not_allowed(request.method, allowed, **place_of(request))
        return plain_error(response.status_code, **place_of(request))

    return middleware


def _says_its_code(response: HttpResponseBase) -> bool:
    is_json = response.get("Content-Type", "").startswith("application/json")
    return is_json or response.has_header(ERROR_HEADER)
