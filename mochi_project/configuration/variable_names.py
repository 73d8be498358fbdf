"""Checks the names of variables: warns of unknown and of renamed ones."""

import os
from collections.abc import Iterable, MutableMapping

from mochi_project.configuration.config import ENV_FILE, ENV_PREFIX, FORMER_NAMES, MochiSettings
from mochi_project.configuration.variables import read_file
from sessions_app.suggestions import suggestion


def variables_of_file(path: str = ENV_FILE) -> list[str]:
    """Return the names of the variables in a ``.env`` file; none if there is no file."""
    return [name.upper() for name in read_file(path)]


def variable_warnings(names: Iterable[str] | None = None) -> dict[str, str]:
    """Return a warning for each ``MOCHI_`` variable that is unknown or has been renamed.

    A typo must not pass silently, and a variable of a later version must not stop the start.

    Args:
        names: The variables; by default those of the environment.
    """
    known = [variable_of(field) for field in MochiSettings.model_fields]
    renamed = {variable_of(former): variable_of(name) for former, name in FORMER_NAMES.items()}
    warnings = {}
    for name in sorted(os.environ if names is None else names):
        # MOCHI_E2E_... belongs to the test suite, a double underscore to a nested value.
        if not name.startswith(ENV_PREFIX) or name.startswith(f"{ENV_PREFIX}E2E_"):
            continue
        if name.split("__")[0] in known:
            continue
        if name in renamed:
            warnings[name] = f"{name} is now named {renamed[name]}; the former name is still read"
            continue
        hint = suggestion(name, known, similarity=0.75)
        warnings[name] = f"{name} is not a setting of mochi-server and is ignored{hint}"
    return warnings


def rename_variables(environment: MutableMapping[str, str]) -> None:
    """Give renamed variables of an environment their current names, for child processes."""
    for former, name in FORMER_NAMES.items():
        value = environment.pop(variable_of(former), None)
        if value and not environment.get(variable_of(name)):
            environment[variable_of(name)] = value


def variable_of(name: str) -> str:
    """Return the variable of a setting."""
    return f"{ENV_PREFIX}{name.upper()}"
