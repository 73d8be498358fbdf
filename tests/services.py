"""Services of a test's own, in the place of those of the configuration."""

from collections.abc import Mapping
from typing import Any

from mochi_project.app import Services


def services_of(values: Mapping[type, Any]) -> Services:
    """Return services that are these values, and no others."""
    return Services({kind: lambda _, value=value: value for kind, value in values.items()})
