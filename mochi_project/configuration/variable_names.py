"""Checks the names of variables, and ``.env``: warns of unknown and renamed ones, broken lines."""

import os
from collections.abc import Collection, Iterable, MutableMapping
from pathlib import Path

from mochi_project.configuration.config import ENV_FILE, FORMER_NAMES, ServerSettings
from mochi_project.configuration.constants import ENV_PREFIX
from mochi_project.configuration.loading import OBJECTS, MochiSettings
from mochi_project.configuration.variables import broken_lines, read_file
from sessions_app.suggestions import suggestion

CHECKED_VARIABLE = "_MOCHI_VARIABLES_CHECKED"
"""Tells child processes that variables and ``.env`` have been checked."""
_SHOWN_LINES = 5


def setting_warnings(settings: ServerSettings) -> list[str]:
    """Return warnings of variables, and of a ``.env`` if it was read; none if they were given.

    The process that started this one may have given them.
    """
    if CHECKED_VARIABLE in os.environ:
        return []
    if settings.trust.ignored_env is not None:
        return [*variable_warnings(os.environ).values()]
    names = (*os.environ, *(name.upper() for name in read_file(ENV_FILE)))
    return [*file_warnings(), *variable_warnings(names).values()]


def file_warnings() -> list[str]:
    """Return the warning of broken lines in ``.env``, if it has any."""
    file = Path(ENV_FILE).absolute()
    lines = broken_lines(file.read_bytes()) if file.is_file() else []
    if not lines:
        return []
    if len(lines) == 1:
        return [f"line {lines[0]} of {file} is not NAME=VALUE and is ignored"]
    shown = ", ".join(map(str, lines[:_SHOWN_LINES]))
    more = f" and {len(lines) - _SHOWN_LINES} more" if len(lines) > _SHOWN_LINES else ""
    return [f"lines {shown}{more} of {file} are not NAME=VALUE and are ignored"]


def variable_warnings(names: Iterable[str]) -> dict[str, str]:
    """Return a warning for each ``MOCHI_`` variable that is unknown or has been renamed.

    A typo must not pass silently, and a variable of a later version must not stop the start.
    """
    known = {variable_of(field) for field in MochiSettings.model_fields}
    renamed = {variable_of(former): variable_of(name) for former, name in FORMER_NAMES.items()}
    warnings = {}
    for name in sorted(names):
        # MOCHI_E2E_... belongs to the test suite.
        if not name.startswith(ENV_PREFIX) or name.startswith(f"{ENV_PREFIX}E2E_"):
            continue
        expected = _with_parts(name, known)
        if name in expected:
            continue
        if name in renamed:
            warnings[name] = f"{name} is now named {renamed[name]}; the former name is still read"
            continue
        hint = suggestion(name, expected, similarity=0.75)
        warnings[name] = f"{name} is not a setting of mochi-server and is ignored{hint}"
    return warnings


def _with_parts(name: str, known: Collection[str]) -> set[str]:
    """Return the known variables, with those of the object that a name has a part of."""
    setting, _, path = name.partition("__")
    members = {variable_of(field): model for field, model in OBJECTS.items()}
    if setting not in members or not path:
        return {*known}
    of, _, part = path.partition("__")
    parts = {f"{setting}__{of}__{field.upper()}" for field in members[setting].model_fields}
    return {*known, *parts} if part else {*known, name}


def rename_variables(environment: MutableMapping[str, str]) -> None:
    """Give renamed variables of an environment their current names, for child processes."""
    for former, name in FORMER_NAMES.items():
        value = environment.pop(variable_of(former), None)
        if value and not environment.get(variable_of(name)):
            environment[variable_of(name)] = value


def variable_of(name: str) -> str:
    """Return the variable of a setting."""
    return f"{ENV_PREFIX}{name.upper()}"
