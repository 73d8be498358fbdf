"""Names what this server adds to other vendors' protocols."""

from collections.abc import Sequence
from typing import Annotated

from ninja import Header

SESSION_HEADER = "x-mochi-session-id"
"""The header of an answer that names its session, if that is saved."""

SessionHeader = Annotated[
    str | None,
    Header(
        alias="X-Mochi-Session-Id",
        description="A session to continue: it gets what follows the last assistant message.",
    ),
]
ToolsHeader = Annotated[
    str | None,
    Header(
        alias="X-Mochi-Tools",
        description="Tools of this server that run in it, with commas between their names.",
    ),
]
"""The headers of requests that send a whole conversation."""

MODELS_WITH_TOOLS = ("profile:", "agent:")
"""The beginnings of the names of models that bring their own tools."""

POLICY_OF_NAMED_TOOLS = "confirm_destructive"
"""A client that names a tool wants it to run; nobody can be asked here (docs/decisions/0060)."""


def own_tools(model: str, header: str | None) -> Sequence[str] | None:
    """Return the names of this server's tools that a request selects.

    Args:
        model: The requested model.
        header: The value of ``X-Mochi-Tools``, if it was sent.

    Returns:
        The names; None leaves it to the session, the profile or the agent.
    """
    if header is not None:
        names = [name.strip() for name in header.split(",")]
        return tuple(dict.fromkeys(name for name in names if name))
    return None if model.startswith(MODELS_WITH_TOOLS) else ()
