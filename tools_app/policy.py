"""Decides whether a tool call needs approval. Pure."""

from collections.abc import Mapping
from typing import Final

ALWAYS_CONFIRM: Final = "always_confirm"
NEVER_CONFIRM: Final = "never_confirm"
CONFIRM_DESTRUCTIVE: Final = "confirm_destructive"


def must_ask(
    *,
    tool_name: str,
    destructive: bool,
    policy: str,
    overrides: Mapping[str, str],
    agent_name: str | None = None,
) -> bool:
    """Return whether a person must approve a call of the tool before it runs.

    Args:
        tool_name: The tool.
        destructive: Whether the tool counts as destructive.
        policy: The policy of all tools. An unknown one (a newer version may have written it) counts
            as ``always_confirm``.
        overrides: Policies of single tools, by name, which win over ``policy``. A tool of an agent
            is named ``agent.tool``. An override of its bare name may be meant for another tool, so
            it can only add the need for approval.
        agent_name: The agent that the tool belongs to, if any.
    """
    if agent_name is None:
        return _asks(overrides.get(tool_name, policy), destructive=destructive)
    own = f"{agent_name}.{tool_name}"
    if own in overrides:
        return _asks(overrides[own], destructive=destructive)
    return _asks(policy, destructive=destructive) or (
        tool_name in overrides and _asks(overrides[tool_name], destructive=destructive)
    )


def _asks(policy: str, *, destructive: bool) -> bool:
    if policy == NEVER_CONFIRM:
        return False
    return destructive if policy == CONFIRM_DESTRUCTIVE else True
