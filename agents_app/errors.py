"""Declares the errors of agents.

The tree::

    MochiError
      + AgentError
        * AgentNotFound           AGENT_NOT_FOUND
        * AgentInvalid            AGENT_INVALID
        * AgentSessionNotFound    SESSION_NOT_FOUND
        * AgentStopped            AGENT_STOPPED
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
    """The agent exists but is invalid; the message says what to change."""

    code = "AGENT_INVALID"

    def __init__(self, agent_name: str, reason: str) -> None:
        super().__init__(
            f"The agent {agent_name!r} can't be used: {reason}",
            agent_name=agent_name,
            reason=reason,
        )


class AgentSessionNotFound(AgentError):
    """The agent has no session of this id that could be continued."""

    code = "SESSION_NOT_FOUND"

    def __init__(self, agent_name: str, session_id: str) -> None:
        super().__init__(
            f"The agent {agent_name!r} has no session {session_id!r}. Leave session_id out to "
            "begin a new one.",
            agent_name=agent_name,
            session_id=session_id,
        )


class AgentStopped(AgentError):
    """An agent that answers a session broke off before its answer."""

    code = "AGENT_STOPPED"

    def __init__(self, agent_name: str, reason: str) -> None:
        super().__init__(
            f"The agent {agent_name!r} stopped: {reason}", agent_name=agent_name, reason=reason
        )
