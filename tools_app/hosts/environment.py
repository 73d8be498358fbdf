"""Makes the environment of tool processes, without the server's own variables and keys. Pure."""

from collections.abc import Collection, Mapping

# Our configuration, some of which is secret, and none of which is a tool's business.
_SERVERS_OWN = ("MOCHI_", "_MOCHI_", "DJANGO_")


def is_withheld(name: str, *, keys: Collection[str], passed: Collection[str]) -> bool:
    """Whether tools must not see a variable.

    Args:
        name: The variable.
        keys: Variables that hold keys, in upper case.
        passed: Variables that tools see nevertheless.
    """
    wanted = name.upper()
    return name not in passed and (wanted.startswith(_SERVERS_OWN) or wanted in keys)


def tool_environment(
    inherited: Mapping[str, str], *, keys: Collection[str], passed: Collection[str]
) -> dict[str, str]:
    """Return what tools see of an environment; the arguments are those of ``is_withheld``."""
    return {
        name: value
        for name, value in inherited.items()
        if not is_withheld(name, keys=keys, passed=passed)
    }
