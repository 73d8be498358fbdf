"""Plugs the search of sessions into the server."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mochi_project.app import MochiApp, Services


class SearchApp(MochiApp):
    """Describes the app."""

    name = "search_app"
    routers = ("search_app.api:router",)

    def chores(self, services: Services) -> Mapping[str, Callable[[], object]]:
        """Return the chore of the index."""
        from search_app.services import tidy  # noqa: PLC0415 - after the start of Django

        return {"tidy the search index": partial(tidy, services)}

    async def findings(self, services: Services) -> Sequence[Any]:
        """Return what is found of the index."""
        from search_app.findings import search_finding  # noqa: PLC0415 - imports SQLite

        return [search_finding(services)]
