"""Offers recall as built-in tools (docs/decisions/0171)."""

from sessions_app.errors import MochiError
from tools_app.errors import ToolNotFound
from tools_app.recall.arguments import ARGUMENTS, SEARCH
from tools_app.recall.record import MOST_BYTES
from tools_app.recall.service import Recall
from tools_app.toolset import (
    InvalidTool,
    Tool,
    ToolInvocation,
    ToolListing,
    ToolResult,
    ToolSelection,
)

GROUP = "recall"
BYTES_PER_TOKEN = 3
"""Of records: ids take more tokens than words do."""


class RecallTools:
    """A toolset (``tools_app.toolset.Toolset``) of what ``Recall`` can do.

    Args:
        recall: Answers the calls.
    """

    def __init__(self, recall: Recall) -> None:
        self._recall = recall
        tools = {
            spec.name: Tool(
                spec=spec,
                parameters={
                    name: {
                        "type": schema.get("type", "string"),
                        "description": schema.get("description", ""),
                    }
                    for name, schema in spec.parameters["properties"].items()
                },
                groups=(GROUP,),
                destructive=False,
            )
            for spec in recall.specs
        }
        no_search = InvalidTool(
            name=SEARCH, file="built-in", reason="This server runs without the app that searches."
        )
        self._listing = ToolListing(
            tools=tools,
            groups={GROUP: list(tools)},
            invalid=() if recall.can_search else (no_search,),
        )

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:  # noqa: ARG002
        """Return the tools, whatever is selected: that takes nothing."""
        return self._listing

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        """Call a tool on behalf of a session.

        Raises:
            ToolNotFound: Another tool is called.
        """
        if invocation.name not in ARGUMENTS:
            raise ToolNotFound(invocation.name)
        tokens = invocation.result_tokens
        most = MOST_BYTES if tokens is None else min(tokens * BYTES_PER_TOKEN, MOST_BYTES)
        try:
            text = await self._recall.call(
                invocation.name, invocation.arguments, own=invocation.session_id, most_bytes=most
            )
        except ToolNotFound:
            raise
        except MochiError as error:
            return ToolResult(success=False, error_message=error.message, error_code=error.code)
        return ToolResult(success=True, result=text)
