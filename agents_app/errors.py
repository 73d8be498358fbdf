"""What can go wrong with agents.

The tree::

    MochiError
      + AgentError
        * AgentNotFound           AGENT_NOT_FOUND
        * AgentInvalid            AGENT_INVALID
"""

from sessions_app.errors import MochiError


class AgentError(MochiError):
    """Something about one agent."""


class AgentNotFound(AgentError):
    """No agent has this name."""

    code = "AGENT_NOT_FOUND"

    def __init__(self, agent_name: str) -> None:
        super().__init__(f"There is no agent named {agent_name!r}.", agent_name=agent_name)


class AgentInvalid(AgentError):
    """The agent is there and can't be used; the message says what to change."""

    code = "AGENT_INVALID"

    def __init__(self, agent_name: str, reason: str) -> None:
        super().__init__(
            f"The agent {agent_name!r} can't be used: {reason}",
            agent_name=agent_name,
            reason=reason,
        )
