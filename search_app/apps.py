"""Plugs the search of sessions into the server."""

from mochi_project.app import MochiApp


class SearchApp(MochiApp):
    """Describes the app."""

    name = "search_app"
    routers = ("search_app.api:router",)
