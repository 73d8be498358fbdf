"""Builds the application for programs that bring their own server: ``create_app``."""

import importlib.util
import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from mochi_project.configuration.config import FORMER_NAMES, ServerSettings
from mochi_project.configuration.constants import CORE, ENV_PREFIX, WINGS
from mochi_project.configuration.setting_errors import (
    ANOTHER_PROJECT,
    AlreadyConfiguredError,
    ConfigurationError,
)
from mochi_project.configuration.variables import with_current_names

if TYPE_CHECKING:
    from mochi_project.process.lifespan import MochiApplication

SETTINGS_MODULE = "mochi_project.settings"
LOG_SETTINGS = frozenset({"log_level", "log_format"})
"""Settings that ask for our logging; a program that gives none of them keeps its own."""


def create_app(arguments: Mapping[str, Any]) -> "MochiApplication":
    """Implement :func:`mochi_server.create_app`; child processes get the arguments as variables."""
    _refuse_hidden_packages()
    from mochi_project.configuration.loading import MochiSettings, load_settings  # noqa: PLC0415

    given = {name: value for name, value in arguments.items() if value is not None}
    given = with_current_names(given, FORMER_NAMES)
    if unknown := sorted(given.keys() - MochiSettings.model_fields.keys()):
        raise ConfigurationError(f"{unknown[0]} is not a setting of mochi-server")
    wanted = load_settings(**given)
    _refuse_other_settings(wanted)
    os.environ.update(as_variables(given))
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS_MODULE
    if not given.keys() & LOG_SETTINGS:
        from django.conf import settings as django_settings  # noqa: PLC0415 - keep the import light

        django_settings.LOGGING_CONFIG = None
        logging.getLogger("django-q").addHandler(logging.NullHandler())  # else it writes to stderr
    from mochi_project.asgi import application  # noqa: PLC0415 - configures Django

    return application


def as_variables(given: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as ``MOCHI_`` variables, for the environment of a process."""
    return {f"{ENV_PREFIX}{name.upper()}": _as_text(value) for name, value in given.items()}


def _refuse_hidden_packages() -> None:
    """Refuse a program whose own packages are found where ours should be.

    Raises:
        ConfigurationError: The message names the package and where it lies.
    """
    root = Path(__file__).parents[1].resolve()
    for name in (*CORE, *WINGS):
        for folder in _folders_of(name):
            if folder.parent.resolve() != root:
                raise ConfigurationError(
                    f"your program's `{name}` ({folder}) hides the package of that name of "
                    "mochi-server: rename yours, or run mochi-server in a process of its own"
                )


def _folders_of(package: str) -> list[Path]:
    """Return where a package, or a module of that name, would be imported from."""
    module = sys.modules.get(package)
    spec = importlib.util.find_spec(package) if module is None else module.__spec__
    if spec is None:
        return []
    if spec.submodule_search_locations is None:  # a module
        return [Path(spec.origin)] if spec.origin else []
    return [Path(location) for location in spec.submodule_search_locations]


def _refuse_other_settings(wanted: ServerSettings) -> None:
    from django.conf import settings as django_settings  # noqa: PLC0415 - keep the import light

    configured = django_settings.configured
    current = getattr(django_settings, "MOCHI", None) if configured else None
    chosen = os.environ.get("DJANGO_SETTINGS_MODULE", SETTINGS_MODULE)
    if current is None and (configured or chosen != SETTINGS_MODULE):
        raise AlreadyConfiguredError(ANOTHER_PROJECT)
    if current is None:
        return
    if current != wanted:
        changed = [
            name
            for name in type(wanted).model_fields
            if getattr(current, name) != getattr(wanted, name)
        ]
        raise AlreadyConfiguredError(
            "this process has an application with other settings "
            f"({', '.join(changed)}); a process can have one"
        )


def _as_text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return json.dumps(value) if isinstance(value, (bool, list, tuple, dict)) else str(value)
