"""Plugs Redis and object stores into the server, if they are configured."""

from collections.abc import Mapping
from typing import Any

from mochi_project.app import Factory, MochiApp


class ClusterApp(MochiApp):
    """Describes the app."""

    name = "cluster_app"

    def factories(self, configuration: Any) -> Mapping[type | str, Factory]:
        """Return the factories, which replace those of one machine; none without a cluster."""
        return {} if configuration.journal_url is None else super().factories(configuration)
