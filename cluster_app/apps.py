"""Plugs Redis and object stores into the server, if they are configured."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mochi_project.app import Factories, MochiApp, Services


class ClusterApp(MochiApp):
    """Describes the app."""

    name = "cluster_app"

    def factories(self, configuration: Any) -> tuple[Factories, Factories]:
        """Return the factories, which replace those of one machine; none without a cluster."""
        return ({}, {}) if configuration.journal_url is None else super().factories(configuration)

    def urgent_chores(self, services: Services) -> Mapping[str, Callable[[], object]]:
        """Return the sealing of an owner's turns of dead machines; none without a cluster."""
        if not _is_cluster(services):
            return {}
        from cluster_app.chores import sealing_chores  # noqa: PLC0415 - imports Redis

        return sealing_chores(services)

    def shared_urgent_chores(self, services: Services) -> Mapping[str, Callable[[], object]]:
        """Return the sealing of that of all owners; none without a cluster."""
        if not _is_cluster(services):
            return {}
        from cluster_app.chores import shared_sealing_chores  # noqa: PLC0415 - imports Redis

        return shared_sealing_chores(services)

    async def findings(self, services: Services) -> Sequence[Any]:
        """Return what is found of Redis, the object store and this node; nothing without them."""
        from mochi_project.reachability import Stores  # noqa: PLC0415 - for few

        if not services.get(Stores).are_shared:
            return ()
        from cluster_app.findings import server_findings, shared_findings  # noqa: PLC0415

        return [*await shared_findings(services), *await server_findings(services)]


def _is_cluster(services: Services) -> bool:
    from mochi_project.configuration.app_settings import AppSettings  # noqa: PLC0415 - as above

    return services.get(AppSettings).journal_url is not None
