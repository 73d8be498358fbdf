"""Plugs imports and exports into the server."""

from collections.abc import Mapping
from typing import Any

from mochi_project.app import Factory, MochiApp


class TransferApp(MochiApp):
    """Describes the app."""

    name = "transfer_app"
    routers = ("transfer_app.api:router",)

    def factories(self, configuration: Any) -> Mapping[type | str, Factory]:  # noqa: ARG002
        """Return none: it provides no services."""
        return {}
