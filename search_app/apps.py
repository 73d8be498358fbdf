"""Plugs the search of sessions into the server."""

from collections.abc import Callable, Mapping

from mochi_project.app import MochiApp, Services


class SearchApp(MochiApp):
    """Describes the app."""

    name = "search_app"
    routers = ("search_app.api:router",)

    def chores(self) -> Mapping[str, Callable[[Services], object]]:
        """Return the chore of the index."""
        from search_app.services import tidy  # noqa: PLC0415 - after the start of Django

        return {"tidy the search index": tidy}
