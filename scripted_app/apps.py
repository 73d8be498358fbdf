"""Plugs the scripted models of test mode into the server."""

from collections.abc import Mapping
from typing import Any

from mochi_project.app import Factory, MochiApp


class ScriptedApp(MochiApp):
    """Describes the app."""

    name = "scripted_app"

    def factories(self, configuration: Any) -> Mapping[type | str, Factory]:  # noqa: ARG002
        """Return none: it provides no services."""
        return {}
