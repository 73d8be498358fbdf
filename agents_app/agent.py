"""Defines agents as values, and the names that they may have. Pure."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from tools_app.toolset import InvalidTool, Tool

CHATS_DIRECTORY = "agent_chats"
SKILL_FILE = "SKILL.md"
INIT_FILE = "__init__.py"
RESERVED_NAMES = frozenset({"chats", "reload"})
"""Names that the routes of agents use for something else."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"

_NAME = re.compile(NAME_PATTERN)
_NOT_IN_MODULES = re.compile(r"[.-]")


class AgentDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, as its folder describes it.

    Attributes:
        name: The folder's name, and the agent's.
        description: Its description, on one line.
        system_prompt: How it should behave: ``SKILL.md`` below the front matter.
        model: Its model; None for that of the calling session.
        tools: Its tools, by name.
        valid: Whether it can be used.
        error_message: Every reason why it can't be used, as sentences that say what to change.
        invalid_tools: What its ``__init__.py`` exports and can't be offered; a valid agent may
            have some of these too.
    """

    name: str
    description: str = ""
    system_prompt: str = ""
    model: str | None = None
    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    valid: bool = False
    error_message: str | None = None
    invalid_tools: Sequence[InvalidTool] = ()


def fault_of_name(name: str) -> str | None:
    """Return why an agent can't have this name, with what to change; None if it can."""
    if _NAME.fullmatch(name) is None:
        return (
            "An agent's name has 1 to 100 ASCII letters, digits, '_', '.' and '-', and begins with "
            "a letter or digit: rename the folder."
        )
    if name in RESERVED_NAMES:
        return f"The API means something else by {name!r}: rename the folder."
    return None


def module_files(name: str) -> Sequence[str]:
    """Return the names that the module of this agent's tools may have, the usual one first.

    ``import`` can't name a module with dots or dashes: such an agent's may have underscores there.
    """
    return list(dict.fromkeys([f"{name}.py", f"{_NOT_IN_MODULES.sub('_', name)}.py"]))
