"""Defines who knows the tools and the agents that a session may enable: a port."""

from collections.abc import Sequence
from typing import Protocol

from sessions_app.session import AgentSettings, ToolSettings


class EnabledNames(Protocol):
    """Knows the tools and the agents that there are."""

    async def missing(
        self, *, tools: ToolSettings | None = None, agents: AgentSettings | None = None
    ) -> Sequence[str]:
        """Return a warning for each enabled tool, group and agent that is not there.

        Raises:
            MochiError: An agent is there, and can't be used.
        """
