"""Serves the ``/tools`` and ``/mcp`` routes: parse, call, encode."""

import logging
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Status

from mochi_project.app import service, shared_service
from mochi_project.http.page import plain_page
from mochi_project.principal import principal
from mochi_project.routing import Router, needs
from sessions_app.http.error_schemas import ENVELOPE
from tools_app.catalogue import ToolCatalogue
from tools_app.errors import ToolError
from tools_app.execution_log import ExecutionLog, statistics
from tools_app.folder import FolderTools
from tools_app.mcp.logins import LoginFailed, McpLogins, come_back_of
from tools_app.mcp.prompts import get_prompt, list_prompts
from tools_app.mcp.toolset import McpTools
from tools_app.payloads import listing_payload, tool_payload
from tools_app.schemas import (
    LoginBegunOut,
    McpPromptIn,
    McpPromptsOut,
    McpPromptTextsOut,
    McpServerOut,
    McpServersOut,
    ToolExecutionsOut,
    ToolListOut,
    ToolOut,
)

logger = logging.getLogger(__name__)
router = Router(scope="read", tags=["tools"])
_FAILED = "Something failed in this server. Its log has the details. Begin the login again."


@router.get(
    "/tools",
    response={200: ToolListOut},
    summary="List tools",
    description=(
        "All tools that can be offered to a model: the functions of the tools folder and the tools "
        "of MCP servers, by name and by group. What was found and can't be offered is under "
        "`invalid`, with the reason. The first request starts what is needed to find out."
    ),
    operation_id="list_tools",
)
async def list_tools(request: HttpRequest) -> dict[str, Any]:
    """List all tools and groups, and what is invalid."""
    return listing_payload(await service(ToolCatalogue).listing())


# Before the route of one tool: `executions` and `reload` are no tools' names.
@router.get(
    "/tools/executions",
    response={200: ToolExecutionsOut},
    summary="List tool calls that were made",
    description=(
        "Your last 100 calls of all web processes, newest first, and statistics of these by tool. "
        "Arguments and results are not recorded."
    ),
    operation_id="list_tool_executions",
)
async def list_executions(request: HttpRequest) -> dict[str, Any]:
    """List the last calls, with statistics."""
    executions = await service(ExecutionLog).recent()
    return {"executions": executions, "statistics": statistics(executions)}


@router.post(
    "/tools/reload",
    response={200: ToolListOut, 507: ENVELOPE},
    summary="Reload the tools folder",
    description=(
        "Reads the tools folder again, in fresh processes, and lists what is there now. Calls that "
        "run go on with the code that they began with. Other web processes follow before they "
        "list or call a tool again."
    ),
    operation_id="reload_tools",
)
@needs(scope="admin")
async def reload_tools(request: HttpRequest) -> dict[str, Any]:
    """Discover the folder again, and list all tools."""
    await service(FolderTools).reload()
    return listing_payload(await service(ToolCatalogue).listing())


@router.get(
    "/tools/{tool_name}",
    response={200: ToolOut, 404: ENVELOPE},
    summary="Get a tool",
    description="One tool by name; 404 `TOOL_NOT_FOUND` also for one that is invalid.",
    operation_id="get_tool",
)
async def get_tool(request: HttpRequest, tool_name: str) -> dict[str, Any]:
    """Return one tool."""
    return tool_payload(await service(ToolCatalogue).find(tool_name))


@router.get(
    "/mcp/servers",
    response={200: McpServersOut},
    summary="List MCP servers",
    description=(
        "The MCP servers that `mcp.json` names, as this web process sees them. Starts none."
    ),
    operation_id="list_mcp_servers",
)
async def list_servers(request: HttpRequest) -> dict[str, Any]:
    """List the MCP servers with their states."""
    return {"servers": [_shown(server) for server in await service(McpTools).servers()]}


def _shown(server: McpServerOut) -> McpServerOut:
    """Leave out the address of a login, which holds its secret, for who may not begin one."""
    if server.login is not None and "admin" not in principal().scopes:
        server.login.url = None
    return server


@router.post(
    "/mcp/servers/{name}/restart",
    response={200: McpServerOut, (404, 502): ENVELOPE},
    summary="Restart an MCP server",
    description=(
        "Stops this web process's connection to the server, and the process where it is one, and "
        "makes a new one. 502 `SERVICE_UNAVAILABLE` when that fails."
    ),
    operation_id="restart_mcp_server",
)
@needs(scope="admin")
async def restart_server(request: HttpRequest, name: str) -> Any:
    """Restart one MCP server."""
    return await service(McpTools).restart(name)


@router.post(
    "/mcp/servers/{name}/login",
    response={200: LoginBegunOut, (404, 409, 502): ENVELOPE},
    summary="Begin a login to an MCP server",
    description=(
        "Returns the address that a person opens to log in, for ten minutes the same. 409 "
        "`LOGIN_NOT_OFFERED` for a server without logins, 502 `SERVICE_UNAVAILABLE` when its "
        "authorization server can't be used."
    ),
    operation_id="begin_mcp_login",
)
@needs(scope="admin")
async def begin_login(request: HttpRequest, name: str) -> dict[str, Any]:
    """Begin a login."""
    port = request.META["SERVER_PORT"]  # where it listens; of a Unix socket none is known
    pending = await shared_service(McpLogins).begin(
        name, port=int(port) if port.isdecimal() else None
    )
    return {"authorization_url": pending.url, "expires_at": pending.expires}


@router.delete(
    "/mcp/servers/{name}/login",
    response={204: None, (404, 409, 502): ENVELOPE},
    summary="Log out of an MCP server",
    description="Forgets the tokens, and has the authorization server revoke them if it can.",
    operation_id="end_mcp_login",
)
@needs(scope="admin")
async def end_login(request: HttpRequest, name: str) -> Status[None]:
    """Forget a login."""
    await shared_service(McpLogins).forget(name)
    return Status(204, None)


@router.get("/mcp/callback", include_in_schema=False)
@needs(token=False)
async def finish_login(request: HttpRequest) -> HttpResponse:
    """Finish the login of a person whose browser an authorization server sends here.

    The secret ``state`` of the address proves that the login was begun here.
    """
    try:
        name = await shared_service(McpLogins).finish(come_back_of(request.get_full_path()))
    except LoginFailed as error:
        code = "NOT_FOUND" if error.status == HTTPStatus.GONE else "BAD_REQUEST"
        return plain_page(error.status, "Not logged in", error.message, code=code)
    except ToolError as error:  # its entry in mcp.json has changed meanwhile
        return plain_page(400, "Not logged in", str(error), code="BAD_REQUEST")
    except Exception:  # not passed on: Django logs the address, which has the code
        logger.exception("a login could not be finished")
        return plain_page(503, "Not logged in", _FAILED, code="SERVICE_UNAVAILABLE")
    return plain_page(200, "Logged in", f"{name} can be used now. You can close this page.")


@router.get(
    "/mcp/servers/{name}/prompts",
    response={200: McpPromptsOut, (404, 502): ENVELOPE},
    summary="List the prompts of an MCP server",
    description="Templates of messages that people may send. Starts the server if necessary.",
    operation_id="list_mcp_prompts",
)
@needs(scope="chat")
async def list_server_prompts(request: HttpRequest, name: str) -> dict[str, Any]:
    """List the prompts of one MCP server."""
    return {"prompts": await list_prompts(await service(McpTools).server(name))}


@router.post(
    "/mcp/servers/{name}/prompts/{prompt}",
    response={200: McpPromptTextsOut, (404, 422, 502): ENVELOPE},
    summary="Get a prompt of an MCP server",
    description=(
        "The messages of a prompt, with its arguments filled in by the server. Nothing is sent to "
        "a model. 422 `VALIDATION_ERROR` names the arguments that are missing, or unknown."
    ),
    operation_id="get_mcp_prompt",
)
@needs(scope="chat")
async def get_server_prompt(
    request: HttpRequest, name: str, prompt: str, body: McpPromptIn
) -> dict[str, Any]:
    """Get one prompt of an MCP server."""
    server = await service(McpTools).server(name)
    return {"messages": await get_prompt(server, prompt, body.arguments or {})}
