"""Who must be asked before a tool runs. Pure."""

from collections.abc import Mapping
from typing import Final

ALWAYS_CONFIRM: Final = "always_confirm"
NEVER_CONFIRM: Final = "never_confirm"
CONFIRM_DESTRUCTIVE: Final = "confirm_destructive"


def must_ask(
    *, tool_name: str, destructive: bool, policy: str, overrides: Mapping[str, str]
) -> bool:
    """Whether a person must approve a call of the tool before it runs.

    Args:
        tool_name: The tool.
        destructive: Whether the tool counts as destructive.
        policy: What holds for all tools. A policy that is not known here (a newer program may have
            written it) counts as ``always_confirm``.
        overrides: Policies of single tools, by name; one of these wins over ``policy``.
    """
    effective = overrides.get(tool_name, policy)
    if effective == NEVER_CONFIRM:
        return False
    if effective == CONFIRM_DESTRUCTIVE:
        return destructive
    return True
