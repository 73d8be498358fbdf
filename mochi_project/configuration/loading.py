"""Loads the settings from ``MOCHI_`` variables and ``.env``."""

import os
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError, create_model

from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.config import ENV_FILE, FORMER_NAMES, ServerSettings
from mochi_project.configuration.constants import CORE, ENV_PREFIX, TEST_MODE_PORT, WINGS
from mochi_project.configuration.setting_errors import ConfigurationError, sentences_on
from mochi_project.configuration.start import Start
from mochi_project.configuration.variables import (
    merged,
    parse_file,
    variables_of,
    with_current_names,
)


def _of_all_apps() -> type[ServerSettings]:
    """Return the class of a server's settings: its own, and those of all apps.

    Also of apps that are left out, because ``apps_off`` is a setting, too (docs/decisions/0147).
    """
    modules = [f"{app}.settings" for app in (*CORE, *WINGS) if find_spec(f"{app}.settings")]
    for module in modules:
        import_module(module)
    by_module = {each.__module__: each for each in AppSettings.__subclasses__()}
    of_apps: list[Any] = [by_module[module] for module in reversed(modules)]
    # Fields of the last base are validated first: the server's own may depend on all others.
    return create_model("MochiSettings", __base__=(ServerSettings, *of_apps), __module__=__name__)


MochiSettings = _of_all_apps()
OBJECTS: Mapping[str, type[BaseModel]] = {
    name: get_args(field.annotation)[1]
    for name, field in MochiSettings.model_fields.items()
    if get_origin(field.annotation) is dict
}
"""The settings that are objects, each with the model of its members."""


def load_settings(**overrides: Any) -> ServerSettings:
    """Load the settings from ``MOCHI_`` variables and ``.env``; ``overrides`` win over both.

    Those of an app are there as ``settings.of(ToolsSettings)``.

    An empty variable counts as one that is not set: compose files pass "" for unset ones. In test
    mode the port is 5099 unless one was given. ``.env`` is read if its folder is trusted.

    Raises:
        ConfigurationError: A value can't be used; the message names the variable.
    """
    start = start_here(**overrides)
    settings = start.settings
    if settings.test_mode and "port" not in settings.model_fields_set:
        settings = settings.model_copy(update={"port": TEST_MODE_PORT})
    return settings.with_trust(start.trust)


def start_here(**overrides: Any) -> Start:
    """Resolve the settings, and the trust they need, for a start in the current directory.

    Raises:
        ConfigurationError: A value can't be used; the message names the variable.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    given = with_current_names(given, FORMER_NAMES)
    return Start(merged(_variables_of(os.environ), given), _validated)


def _validated(named: Mapping[str, Any], env: bytes | OSError | None) -> ServerSettings:
    try:
        if isinstance(env, OSError):
            raise env
        variables = parse_file(env) if env else {}
        settings = MochiSettings.model_validate(merged(_variables_of(variables), named))
        return settings.with_keys(variables)
    except ValidationError as error:
        raise ConfigurationError(sentences_on(error, ENV_PREFIX)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{ENV_FILE} can't be read: {error}") from error


def _variables_of(source: Mapping[str, str | None]) -> dict[str, Any]:
    return variables_of(source, ENV_PREFIX, objects=OBJECTS, former=FORMER_NAMES)
