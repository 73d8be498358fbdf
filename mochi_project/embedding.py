"""Builds the application for programs that bring their own server: ``create_app``."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from mochi_project.configuration.config import (
    ENV_PREFIX,
    FORMER_NAMES,
    MochiSettings,
    load_settings,
)
from mochi_project.configuration.setting_errors import AlreadyConfiguredError, ConfigurationError
from mochi_project.configuration.variables import with_current_names

if TYPE_CHECKING:
    from mochi_project.process.lifespan import MochiApplication

SETTINGS_MODULE = "mochi_project.settings"


def create_app(
    *, ollama_host: str | None = None, data_dir: str | Path | None = None, **settings: Any
) -> "MochiApplication":
    """Return the ASGI application of this process, configured by arguments and the environment.

    The arguments are the lower-case names of the ``MOCHI_`` variables and win over those. They are
    written to the environment, so that the processes which the server starts are configured alike.

    Raises:
        ConfigurationError: A value, or a name, is not usable; the message names it.
        AlreadyConfiguredError: The process has an application with other settings, or Django runs
            with another project's: Django has one configuration in a process.
    """
    given = {
        name: value
        for name, value in {"ollama_host": ollama_host, "data_dir": data_dir, **settings}.items()
        if value is not None
    }
    given = with_current_names(given, FORMER_NAMES)
    if unknown := sorted(given.keys() - MochiSettings.model_fields.keys()):
        raise ConfigurationError(f"{unknown[0]} is not a setting of mochi-server")
    wanted = load_settings(**given)
    _refuse_other_settings(wanted)
    os.environ.update(_as_variables(given))
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS_MODULE
    from mochi_project.asgi import application  # noqa: PLC0415 - configures Django

    return application


def _refuse_other_settings(wanted: MochiSettings) -> None:
    from django.conf import settings as django_settings  # noqa: PLC0415 - keep the import light

    if not django_settings.configured:
        return
    current = getattr(django_settings, "MOCHI", None)
    if current is None:
        raise AlreadyConfiguredError(
            "Django is already configured by another project in this process; "
            "run mochi-server in a process of its own"
        )
    if current != wanted:
        changed = [
            name
            for name in MochiSettings.model_fields
            if getattr(current, name) != getattr(wanted, name)
        ]
        raise AlreadyConfiguredError(
            "this process has an application with other settings "
            f"({', '.join(changed)}); a process can have one"
        )


def _as_variables(given: Mapping[str, Any]) -> dict[str, str]:
    return {f"{ENV_PREFIX}{name.upper()}": _as_text(value) for name, value in given.items()}


def _as_text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return json.dumps(value) if isinstance(value, (bool, list, tuple, dict)) else str(value)
