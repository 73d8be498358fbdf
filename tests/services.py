"""Services of a test's own, in the place of those of the configuration."""

from collections.abc import Mapping
from typing import Any

from mochi_project.app import Services
from mochi_project.configuration.app_settings import AppSettings


def services_of(values: Mapping[type, Any]) -> Services:
    """Return services that are these values, and no others; settings are of all their apps."""
    kinds = {
        kind: value
        for given, value in values.items()
        for kind in (type(value).__mro__ if isinstance(value, AppSettings) else (given,))
    }
    return Services({kind: lambda _, value=value: value for kind, value in kinds.items()})
