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
"""Tells child processes that the names in ``.env`` have been checked."""
_SHOWN_LINES = 5


def variables_of_file() -> list[str]:
    """Return the names of the variables in ``.env``; none if there is no file."""
    return [name.upper() for name in read_file(ENV_FILE)]


def names_at_start(settings: ServerSettings) -> list[str]:
    """Return the names of the variables that a process read; of ``.env`` too, if it was read.

    Those of ``.env`` are left out where the process that started this one has checked them.
    """
    return [*os.environ, *(variables_of_file() if _is_file_unchecked(settings) else ())]


def file_warnings(settings: ServerSettings) -> list[str]:
    """Return the warning of broken lines in ``.env``, if this process read it and has to check."""
    file = Path(ENV_FILE).absolute()
    if not _is_file_unchecked(settings) or not file.is_file():
        return []
    lines = broken_lines(file.read_bytes())
    if not lines:
        return []
    if len(lines) == 1:
        return [f"line {lines[0]} of {file} is not NAME=VALUE and is ignored"]
    shown = ", ".join(map(str, lines[:_SHOWN_LINES]))
    more = f" and {len(lines) - _SHOWN_LINES} more" if len(lines) > _SHOWN_LINES else ""
    return [f"lines {shown}{more} of {file} are not NAME=VALUE and are ignored"]


def _is_file_unchecked(settings: ServerSettings) -> bool:
    return CHECKED_VARIABLE not in os.environ and settings.trust.ignored_env is None


def variable_warnings(names: Iterable[str] | None = None) -> dict[str, str]:
    """Return a warning for each ``MOCHI_`` variable that is unknown or has been renamed.

    A typo must not pass silently, and a variable of a later version must not stop the start.

    Args:
        names: The variables; by default those of the environment.
    """
    known = {variable_of(field) for field in MochiSettings.model_fields}
    renamed = {variable_of(former): variable_of(name) for former, name in FORMER_NAMES.items()}
    warnings = {}
    for name in sorted(os.environ if names is None else names):
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
