"""Makes the environment of tool processes, without the server's own variables and keys. Pure."""

from collections.abc import Collection, Mapping

# The server's configuration, some of which is secret.
# With the last one, tools that count would count among the server's metrics.
_SERVERS_OWN = ("MOCHI_", "_MOCHI_", "DJANGO_", "PROMETHEUS_MULTIPROC_DIR")


def is_withheld(name: str, *, keys: Collection[str], passed: Collection[str]) -> bool:
    """Return whether a variable is kept from tools.

    Args:
        name: The variable.
        keys: Names of variables that hold keys, in upper case.
        passed: Names of variables that tools get nevertheless.
    """
    wanted = name.upper()
    return name not in passed and (wanted.startswith(_SERVERS_OWN) or wanted in keys)


def tool_environment(
    inherited: Mapping[str, str], *, keys: Collection[str], passed: Collection[str]
) -> dict[str, str]:
    """Return the part of an environment that tools get; arguments as for ``is_withheld``."""
    return {
        name: value
        for name, value in inherited.items()
        if not is_withheld(name, keys=keys, passed=passed)
    }
