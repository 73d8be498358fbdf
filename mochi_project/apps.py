"""Plugs the server itself together: configuration, serving, background work."""

from mochi_project.app import MochiApp


class ServerApp(MochiApp):
    """Describes the app."""

    name = "mochi_project"
    routers = ("mochi_project.http.api:router",)
