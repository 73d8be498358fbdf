"""Plugs tools and MCP servers into the server."""

from mochi_project.app import MochiApp


class ToolsApp(MochiApp):
    """Describes the app."""

    name = "tools_app"
    routers = ("tools_app.api:router",)
    statuses = {
        "TOOL_NOT_FOUND": 404,
        "TOOL_EXECUTION_DENIED": 403,
        "TOOL_EXECUTION_FAILED": 500,
        "LOGIN_NOT_OFFERED": 409,
    }
