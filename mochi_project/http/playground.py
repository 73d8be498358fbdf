"""Serves the chat page at ``/``, if enabled; otherwise ``/`` redirects to the docs."""

import asyncio
import hashlib

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.cache import get_conditional_response

from mochi_project import chat_page
from mochi_project.errors.handlers import not_allowed, unknown_path_view
from mochi_project.routing import needs

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Allows only the page's own files to run, and no text to become markup (Trusted Types).

Why it allows fonts and no policy that makes markup: docs/decisions/0152, 0153.
"""


@needs(token=False)
async def index_view(request: HttpRequest) -> HttpResponseBase:
    """Serve the chat page, or redirect to the docs."""
    if request.method not in {"GET", "HEAD"}:
        return not_allowed(request.method, ["GET", "HEAD"])
    if not settings.MOCHI.serves_playground:
        return HttpResponseRedirect(reverse("api:openapi-view"))
    return await _file(request, "index.html")


@needs(token=False)
async def file_view(request: HttpRequest, name: str) -> HttpResponseBase:
    """Serve one of the page's files."""
    if not settings.MOCHI.serves_playground:
        return await unknown_path_view(request)
    if request.method not in {"GET", "HEAD"}:
        return not_allowed(request.method, ["GET", "HEAD"])
    return await _file(request, name)


async def _file(request: HttpRequest, name: str) -> HttpResponseBase:
    content = await asyncio.to_thread(chat_page.read, name)
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    whole = HttpResponse(content, content_type=chat_page.CONTENT_TYPES[name])
    response = get_conditional_response(request, etag=etag, response=whole) or whole
    response["ETag"] = etag
    response["Cache-Control"] = "no-cache"  # file names stay the same in new releases
    # Also of a 304: its policy replaces the one that the browser has kept.
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    # Else a browser looks up the names of a model's links unasked, which no policy forbids.
    response["X-DNS-Prefetch-Control"] = "off"
    return response
