"""Assembles the HTTP API: the routers of the installed apps, and the OpenAPI schema."""

from importlib import import_module
from pkgutil import resolve_name
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja.openapi.schema import OpenAPISchema

from mochi_project.app import foreign_apis, mochi_apps, routers_of
from mochi_project.errors.handlers import ForgetfulAPI, install_error_handlers
from mochi_project.http.docs_page import PackagedSwagger, open_page
from mochi_project.http.openapi import SCOPE, by_tags, describe_common_answers
from mochi_project.http.openapi_components import shape_components
from mochi_project.http.strict_json import StrictJsonParser
from mochi_project.routing import route_table
from mochi_project.version import VERSION


class MochiAPI(ForgetfulAPI):
    """Ninja's API; its schema has what all routes have in common."""

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        """Return what a route's answer is put into: with no text, which would be encoded first."""
        return HttpResponse(content_type=self.get_content_type())

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """Return the schema, with the answers of guard and error handlers, and the other APIs."""
        schema = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        for app in mochi_apps():
            for components in map(resolve_name, app.components):
                schema["components"]["schemas"].update(components())
        describe_common_answers(schema)
        for other in foreign_apis():
            if (describe := getattr(import_module(other.module), "openapi_schema", None)) is None:
                continue  # its protocol is documented by others
            others = describe()
            schema["paths"].update(others["paths"])
            schema["components"]["schemas"].update(others["components"]["schemas"])
        schema["paths"] = by_tags(schema["paths"])
        for path, methods in schema["paths"].items():
            for method, operation in methods.items():
                needs = route_table().needs_of(path, method.upper())
                operation[SCOPE] = needs.scope if needs.token else "none"
        shape_components(schema)
        return schema


api = MochiAPI(
    title="mochi-server",
    version=VERSION,
    description=(
        "Conversations with language models: sessions as plain files, answers as server-sent "
        'events. Every error is `{"error": {code, message, details}}`.'
    ),
    docs=PackagedSwagger(),
    docs_decorator=open_page,
    parser=StrictJsonParser(),
    urls_namespace="api",
)
install_error_handlers(api)
for _app in mochi_apps():
    for _router in routers_of(_app.routers):
        api.add_router("", _router)
