"""Defines the management commands of the app."""

COMMANDS = {"mcp": "list and check MCP servers", "tools": "list, show, call and check tools"}
