"""Serves ``/api/v1/docs``: Swagger UI as Ninja packages it, without a network."""

import asyncio
import json
from importlib.resources import files
from typing import Any

import ninja
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase

from mochi_project.errors.handlers import not_allowed, plain_error
from mochi_project.routing import View, needs

CONTENT_TYPES = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui-init.js": "text/javascript; charset=utf-8",
    "favicon.svg": "image/svg+xml",
}

# Swagger UI sets styles inline and draws its icons from data: URLs. The settings are a JSON data
# block, which no browser runs.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="{icon}" type="image/svg+xml">
<link rel="stylesheet" href="{style}">
<style>
/* All errors have one shape: the schema ErrorResponse shows it. */
.response:is([data-code^="4"], [data-code^="5"]) :is(.model-example, .response-controls) {{
  display: none;
}}
</style>
</head>
<body data-csrf-token="" data-api-csrf="">
<div id="swagger-ui"></div>
<script type="application/json" id="swagger-settings">{settings}</script>
<script src="{bundle}"></script>
<script src="{init}"></script>
</body>
</html>
"""


def open_page(view: View) -> View:
    """Let everybody read a page, and nobody send to it."""
    return needs(token=False)(require_safe(view))


class PackagedSwagger(DocsBase):
    """Renders Swagger UI from the files inside the installed ``ninja`` package."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:  # noqa: ARG002 - Ninja's signature
        """Return the page; its assets come from :func:`asset_view`."""
        settings = {
            "url": self.get_openapi_url(api, kwargs),
            "layout": "BaseLayout",
            "deepLinking": True,
            "docExpansion": "list",
            "tryItOutEnabled": True,
            "persistAuthorization": True,
            "validatorUrl": None,  # otherwise the schema's URL is sent to a public service
        }
        page = format_html(
            _PAGE,
            title=api.title,
            settings=mark_safe(json.dumps(settings).replace("<", "\\u003c")),  # noqa: S308 - escaped
            icon=_asset_url("favicon.svg"),
            style=_asset_url("swagger-ui.css"),
            bundle=_asset_url("swagger-ui-bundle.js"),
            init=_asset_url("swagger-ui-init.js"),
        )
        return HttpResponse(page, headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})


@needs(token=False)
async def asset_view(request: HttpRequest, name: str) -> HttpResponse:
    """Serve one of the page's files, cacheable because its URL includes the version."""
    if request.method not in {"GET", "HEAD"}:
        return not_allowed(request.method, ["GET", "HEAD"])
    if name not in CONTENT_TYPES:
        return plain_error(404)
    content = await asyncio.to_thread((files(ninja) / "static" / "ninja" / name).read_bytes)
    return HttpResponse(
        content,
        content_type=CONTENT_TYPES[name],
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )


def _asset_url(name: str) -> str:
    return escape(f"{reverse('docs-asset', args=[name])}?v={ninja.__version__}")
