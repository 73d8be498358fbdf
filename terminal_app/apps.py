"""Plugs conversations in a terminal into the server: the commands ``chat`` and ``send``."""

from collections.abc import Mapping
from typing import Any

from mochi_project.app import Factory, MochiApp


class TerminalApp(MochiApp):
    """Describes the app."""

    name = "terminal_app"

    def factories(self, configuration: Any) -> Mapping[type | str, Factory]:  # noqa: ARG002
        """Return none: it provides no services."""
        return {}
