"""Converts tools to JSON-compatible values, for routes and commands."""

from typing import Any

import msgspec

from tools_app.toolset import Tool, ToolListing


def listing_payload(listing: ToolListing) -> dict[str, Any]:
    """Return all tools by name, the names by group, and what is invalid."""
    return {
        "tools": {name: tool_payload(listing.tools[name]) for name in sorted(listing.tools)},
        "groups": {group: list(names) for group, names in listing.groups.items()},
        "invalid": [msgspec.to_builtins(entry) for entry in listing.invalid],
    }


def tool_payload(tool: Tool) -> dict[str, Any]:
    """Return a tool as ``GET /tools/{name}`` shows it."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.spec.description,
        "parameters": {name: dict(known) for name, known in tool.parameters.items()},
        "json_schema": dict(tool.spec.parameters),
        "destructive": tool.destructive,
        "groups": list(tool.groups),
        "server": tool.server,
        "icons": list(tool.icons),
    }
