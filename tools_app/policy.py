"""Decides whether a tool call needs approval. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sessions_app.messages import NO_EXTRA
from sessions_app.policy_scope import MOST_SCOPES, PolicyScope
from sessions_app.session import ToolSettings

ALWAYS_CONFIRM: Final = "always_confirm"
NEVER_CONFIRM: Final = "never_confirm"
CONFIRM_DESTRUCTIVE: Final = "confirm_destructive"


class RememberedPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that a person sets with the approval of a call, for further calls of the tool.

    Attributes:
        tool: The tool's name in ``tool_policies``.
        arguments: The globs of calls that it is for; None for all calls.
        replaces: The tool's policy when it was set; a person's later one is not replaced.
        replaced_scopes: Its scopes at that time.
    """

    tool: str
    arguments: Mapping[str, str] | None = None
    replaces: str | None = None
    replaced_scopes: tuple[PolicyScope, ...] = ()

    def applied_to(self, settings: ToolSettings) -> ToolSettings:
        """Return the settings with this policy, unless they have a later one for the tool."""
        name, scopes = self.tool, tuple(settings.tool_scopes.get(self.tool, ()))
        is_added = self.arguments is not None and bool(scopes)  # which all others stay beside
        replaced = self.replaces, self.replaced_scopes
        if not is_added and (settings.tool_policies.get(name), scopes) != replaced:
            return settings
        policies = {**settings.tool_policies, name: ALWAYS_CONFIRM}
        if self.arguments is None:
            policies[name] = NEVER_CONFIRM
            others = {key: kept for key, kept in settings.tool_scopes.items() if key != name}
            return msgspec.structs.replace(settings, tool_policies=policies, tool_scopes=others)
        scope = PolicyScope(policy=NEVER_CONFIRM, arguments=self.arguments)
        if scope in scopes or len(scopes) >= MOST_SCOPES:
            return settings
        return msgspec.structs.replace(
            settings,
            tool_policies=policies,
            tool_scopes={**settings.tool_scopes, name: (*scopes, scope)},
        )


def policy_name(tool_name: str, agent_name: str | None) -> str:
    """Return the name of a tool in ``tool_policies``; one of an agent has the agent's before it."""
    return tool_name if agent_name is None else f"{agent_name}.{tool_name}"


def must_ask(
    *,
    tool_name: str,
    destructive: bool,
    policy: str,
    overrides: Mapping[str, str],
    agent_name: str | None = None,
    scopes: Mapping[str, Sequence[PolicyScope]] = NO_EXTRA,
    arguments: Mapping[str, Any] = NO_EXTRA,
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
        scopes: Policies for certain arguments, by names as in ``overrides``, over which they win.
            Where a call is in several, it needs approval if one of them wants it.
        arguments: The arguments of the call.
    """
    own = policy_name(tool_name, agent_name)
    within = [scope.policy for scope in scopes.get(own, ()) if scope.covers(arguments)]
    if within:
        return any(_asks(each, destructive=destructive) for each in within)
    if agent_name is None:
        return _asks(overrides.get(tool_name, policy), destructive=destructive)
    if own in overrides:
        return _asks(overrides[own], destructive=destructive)
    return _asks(policy, destructive=destructive) or (
        tool_name in overrides and _asks(overrides[tool_name], destructive=destructive)
    )


def _asks(policy: str, *, destructive: bool) -> bool:
    if policy == NEVER_CONFIRM:
        return False
    return destructive if policy == CONFIRM_DESTRUCTIVE else True
