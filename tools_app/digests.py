"""Computes and compares digests of MCP tools, to notice changes (docs/decisions/0034). Pure.

A server can change the description of a tool at any time, also after a person has allowed it to run
without approval. So a session keeps a digest of each tool from its first use on. A tool that
differs, or that joined the session's group later, needs approval until a person has given one.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sessions_app.session import ToolSettings
from tools_app.toolset import Tool

DIGEST_CHARS = 32


def digest_of(
    name: str, description: str, schema: Mapping[str, Any], instructions: str | None = None
) -> str:
    """Return a digest of a server's description of a tool; the order of keys does not matter.

    What the server says of all its tools counts, too, if it says something.

    Only 128 bits, in hex: sessions keep them in the part of a file that lists read.
    """
    described = [name, description, schema, *([instructions] if instructions else ())]
    said = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()[:DIGEST_CHARS]


def changed_tools(tools: Iterable[Tool], settings: ToolSettings) -> frozenset[str]:
    """Return the names of tools that have changed since they were enabled."""
    return frozenset(tool.name for tool in tools if _is_changed(tool, settings))


def with_first_uses(
    settings: ToolSettings, tools: Iterable[Tool], *, whole_group: bool
) -> ToolSettings:
    """Return the settings with digests of tools that are used for the first time.

    Args:
        settings: The session's settings.
        tools: The tools that are offered to its model.
        whole_group: Whether all tools of the session's group are among them.
    """
    digests: dict[str, str] = {}
    group = settings.digested_group
    for tool in tools:
        if tool.digest is None:
            continue
        if tool.name not in settings.tool_digests and not _is_changed(tool, settings):
            digests[tool.name] = tool.digest
        if whole_group and settings.tool_group in tool.groups:
            group = settings.tool_group
    if not digests and group == settings.digested_group:
        return settings
    return msgspec.structs.replace(
        settings, tool_digests={**settings.tool_digests, **digests}, digested_group=group
    )


def with_approved(settings: ToolSettings, tools: Iterable[Tool]) -> ToolSettings:
    """Return the settings with the current digests of tools that a person has approved."""
    digests = {tool.name: tool.digest for tool in tools if tool.digest is not None}
    return msgspec.structs.replace(settings, tool_digests={**settings.tool_digests, **digests})


def _is_changed(tool: Tool, settings: ToolSettings) -> bool:
    if tool.digest is None:
        return False
    known = settings.tool_digests.get(tool.name)
    if known is not None:
        return known != tool.digest
    is_enabled_by_name = tool.name in settings.tools
    group_is_known = settings.tool_group in tool.groups and (
        settings.tool_group == settings.digested_group
    )
    return group_is_known and not is_enabled_by_name
