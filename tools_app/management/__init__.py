"""Defines the management commands of the app."""

COMMANDS = {
    "mcp": "list, check and log in to MCP servers",
    "tools": "list, show, call and check tools",
}
