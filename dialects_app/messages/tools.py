"""Parses the tools of a request and its tool choice. Pure.

Tools of the client have no ``type``, or ``custom``. The others are Anthropic's own, which this
server does not have: they are left out with a warning. A request with nothing else is refused,
because an answer to a search that nobody made would be invented.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from chat.start.turn_request import ToolChoice
from dialects_app.messages.body import CountTokensIn, ToolIn
from dialects_app.shared.additions import own_tools
from dialects_app.shared.fields import refuse
from dialects_app.shared.parsed_request import RequestedTools
from sessions_app.messages import ToolSpec

_is_name = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII).fullmatch
_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}


def read_tools(
    body: CountTokensIn, references: Collection[str], named: str | None = None
) -> RequestedTools:
    """Return the tools of a request.

    Args:
        body: Its body.
        references: The deferred tools that the model was told of.
        named: Tools of this server, separated by commas (``X-Mochi-Tools``).

    Raises:
        ValidationFailed: A tool or the choice is invalid; ``field`` is its path.
    """
    if body.mcp_servers:
        refuse(
            "mcp_servers",
            "This server connects to the MCP servers of its own configuration only: leave out "
            "'mcp_servers'.",
        )
    given = [*enumerate(body.tools or ())]
    own = own_tools(body.model, named)
    of_vendor = [(at, tool) for at, tool in given if tool.type not in (None, "custom")]
    if of_vendor and len(of_vendor) == len(given) and not own:
        at, tool = of_vendor[0]
        refuse(f"tools[{at}]", f"{tool.name[:100]} is not available on this server.")
    specs: dict[str, ToolSpec] = {}
    for at, tool in given:
        if tool.type in (None, "custom"):
            spec = _spec(tool, f"tools[{at}]")
            if spec.name in specs:
                refuse(f"tools[{at}].name", f"Two tools have the name {spec.name!r}.")
            specs[spec.name] = spec
    deferred = {tool.name for _, tool in given if tool.defer_loading} - {*references}
    left_out = [f"tools[{at}]: {tool.name} is not available here" for at, tool in of_vendor]
    choice = body.tool_choice
    if choice is not None and choice.disable_parallel_tool_use and specs:
        left_out.append("disable_parallel_tool_use: the model may call several tools at once")
    return RequestedTools(
        client=[spec for spec in specs.values() if spec.name not in deferred],
        own=own,
        choice=_choice(body, specs, own),
        left_out=left_out,
    )


def _choice(
    body: CountTokensIn, specs: Mapping[str, ToolSpec], own: Sequence[str] | None
) -> ToolChoice:
    choice = body.tool_choice
    if choice is None or choice.type == "auto":
        return "auto"
    if choice.type == "none":
        return "none"
    if not specs and own is not None and not own:
        refuse("tool_choice", "'tool_choice' is only allowed when 'tools' are specified.")
    if choice.type == "any":
        return "required"
    if choice.name is None:
        refuse("tool_choice.name", "Missing required parameter: 'tool_choice.name'.")
    if choice.name not in specs and own is not None and choice.name not in own:
        refuse("tool_choice.name", f"There is no tool {choice.name[:100]!r} in 'tools'.")
    return [choice.name]


def _spec(tool: ToolIn, path: str) -> ToolSpec:
    if not _is_name(tool.name):
        refuse(
            f"{path}.name",
            "The name of a tool has 1 to 128 letters, digits, '_' and '-'.",
        )
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        parameters=tool.input_schema or _NO_ARGUMENTS,
    )
