"""Serves the chat page at ``/``, if enabled; otherwise ``/`` redirects to the docs."""

import asyncio

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from mochi_project import chat_page
from mochi_project.errors.handlers import not_allowed, unknown_path_view
from mochi_project.routing import needs

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Allows only the page's own files to run, and no text to become markup (Trusted Types)."""


@needs(token=False)
async def index_view(request: HttpRequest) -> HttpResponse:
    """Serve the chat page, or redirect to the docs."""
    if request.method not in {"GET", "HEAD"}:
        return not_allowed(request.method, ["GET", "HEAD"])
    if not settings.MOCHI.serves_playground:
        return HttpResponseRedirect(reverse("api:openapi-view"))
    return await _file("index.html")


@needs(token=False)
async def file_view(request: HttpRequest, name: str) -> HttpResponse:
    """Serve one of the page's files."""
    if not settings.MOCHI.serves_playground:
        return await unknown_path_view(request)
    if request.method not in {"GET", "HEAD"}:
        return not_allowed(request.method, ["GET", "HEAD"])
    return await _file(name)


async def _file(name: str) -> HttpResponse:
    return HttpResponse(
        await asyncio.to_thread(chat_page.read, name),
        content_type=chat_page.CONTENT_TYPES[name],
        headers={
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "Cache-Control": "no-cache",  # file names stay the same in new releases
        },
    )
