"""Decides whether a tool call needs approval. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from sessions_app.messages import NO_EXTRA
from sessions_app.policy_scope import MOST_SCOPES, PolicyScope
from sessions_app.session import ToolSettings

ALWAYS_CONFIRM: Final = "always_confirm"
NEVER_CONFIRM: Final = "never_confirm"
CONFIRM_DESTRUCTIVE: Final = "confirm_destructive"
_ALWAYS: Final = 2
"""The rank of ``always_confirm``, the strictest."""


class PoliciesOfTool(NamedTuple):
    """The policies that decide about the calls of one tool: for all tools, its own, its scopes."""

    general: str
    own: str | None
    scopes: tuple[PolicyScope, ...]


def policies_of(settings: ToolSettings, name: str) -> PoliciesOfTool:
    """Return the policies that decide about a tool, by its name in ``tool_policies``."""
    scopes = tuple(settings.tool_scopes.get(name, ()))
    return PoliciesOfTool(settings.execution_policy, settings.tool_policies.get(name), scopes)


class RememberedPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that a person sets with the approval of a call, for further calls of the tool.

    Attributes:
        tool: The tool's name in ``tool_policies``.
        arguments: The globs of calls that it is for; None for all calls.
        replaces: What decided about the tool when it was set; a person's later choice stays.
    """

    tool: str
    arguments: Mapping[str, str] | None = None
    replaces: PoliciesOfTool

    def applied_to(self, settings: ToolSettings) -> ToolSettings:
        """Return the settings with this policy, unless they have a later one for the tool."""
        name, current = self.tool, policies_of(settings, self.tool)
        scopes = current.scopes
        is_added = self.arguments is not None and bool(scopes)  # which all others stay beside
        if current.general != self.replaces.general:
            return settings
        if not is_added and current != self.replaces:
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


def allows_without_asking(settings: ToolSettings) -> bool:
    """Return whether the settings let calls run for which others would ask a person."""
    scopes = (scope.policy for each in settings.tool_scopes.values() for scope in each)
    policies = {settings.execution_policy, *settings.tool_policies.values(), *scopes}
    return NEVER_CONFIRM in policies


def relaxes(new: ToolSettings, old: ToolSettings) -> bool:
    """Return whether settings let calls run, of any tool, for which the old ones ask a person."""
    names = {*new.tool_policies, *old.tool_policies, *new.tool_scopes, *old.tool_scopes}
    return _rank(new.execution_policy) < _rank(old.execution_policy) or any(
        _relaxes_tool(name, new, old) for name in names
    )


def _relaxes_tool(name: str, new: ToolSettings, old: ToolSettings) -> bool:
    own, old_own = _own_rank(new, name), _own_rank(old, name)
    scopes, old_scopes = new.tool_scopes.get(name, ()), old.tool_scopes.get(name, ())
    added = [_rank(scope.policy) for scope in scopes if scope not in old_scopes]
    removed = [_rank(scope.policy) for scope in old_scopes if scope not in scopes]
    weakest = min(own, *(_rank(scope.policy) for scope in scopes), _ALWAYS)
    return min(own, *added, _ALWAYS) < old_own or weakest < max(removed, default=0)


def _own_rank(settings: ToolSettings, name: str) -> int:
    """Return how strict the policy of a tool is, whose name may be of an agent's."""
    policies, general = settings.tool_policies, settings.execution_policy
    if name in policies:
        return _rank(policies[name])
    return max(_rank(general), _rank(policies.get(name.partition(".")[2], general)))


def _rank(policy: str) -> int:
    return {NEVER_CONFIRM: 0, CONFIRM_DESTRUCTIVE: 1}.get(policy, _ALWAYS)


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
