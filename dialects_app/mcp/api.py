"""Serves MCP's one path: parses, calls, encodes. The OpenAPI document has none of it."""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from dialects_app.mcp.protocol import McpMessage, RpcError, read_message, require_match
from dialects_app.mcp.service import McpService
from dialects_app.shared.streams import json_response
from mochi_project.app import service
from mochi_project.errors.handlers import not_allowed
from mochi_project.routing import needs


@needs(scope="read")
async def answer(request: HttpRequest) -> HttpResponse:
    """Answer one message; to a notification there is nothing to say."""
    if request.method != "POST":
        return not_allowed(request.method, ["POST"], path=request.path_info)
    message: McpMessage | None = None
    status = 200
    try:
        message = read_message(request.body, request.headers)
        require_match(message, request.headers)
        if message.id is None:
            return HttpResponse(status=202)
        value = message.answer(await service(McpService).answer(message))
    except RpcError as error:
        value, status = error.answer(message), error.status(message)
    return json_response(value, status=status)


urlpatterns = [path("", answer)]
