"""Assembles the API below ``/v1`` (docs/decisions/0059).

Imported once the server listens, or with the first request for it: whoever starts a server does not
wait for it.
"""

from typing import Any

from dialects_app.apps import OPENAI
from dialects_app.messages import errors as messages_errors
from dialects_app.openapi import describe_operations
from dialects_app.shared.errors import status_of
from mochi_project.app import routers_of
from mochi_project.errors.handlers import ForgetfulAPI, install_error_handlers
from mochi_project.http.error_codes import describe_errors
from mochi_project.http.openapi import describe_parameters
from mochi_project.http.strict_json import StrictJsonParser
from mochi_project.version import VERSION

openai_api = ForgetfulAPI(
    title="mochi-server",
    version=VERSION,
    docs_url=None,
    openapi_url=None,
    parser=StrictJsonParser(),
    urls_namespace=OPENAI.namespace,
)
install_error_handlers(openai_api)
for _router in routers_of(OPENAI.routers):
    openai_api.add_router("", _router)

_REFUSALS = (
    *("VALIDATION_ERROR", "BAD_REQUEST", "UNAUTHENTICATED", "FORBIDDEN", "REQUEST_TIMEOUT"),
    *("PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"),
)

urlpatterns, APP_NAME, NAMESPACE = openai_api.urls


def openapi_schema() -> dict[str, Any]:
    """Return the OpenAPI schema of these routes."""
    schema: dict[str, Any] = openai_api.get_openapi_schema()
    describe_operations(schema)
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            describe_parameters(path, operation)
            is_claudes = path.startswith("/v1/messages")
            described = messages_errors.status_of if is_claudes else status_of
            describe_errors(path, method, operation, common=_REFUSALS, status_of=described)
    return schema
