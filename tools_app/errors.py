"""What can go wrong with tools.

The tree::

    MochiError
      * ToolNotFound      TOOL_NOT_FOUND
"""

from sessions_app.errors import MochiError


class ToolNotFound(MochiError):
    """No tool of this name is offered."""

    code = "TOOL_NOT_FOUND"

    def __init__(self, tool_name: str) -> None:
        super().__init__(f"There is no tool named {tool_name!r}.", tool_name=tool_name)
