"""Plugs the protocols of other clients into the server."""

from mochi_project.app import MochiApp


class DialectsApp(MochiApp):
    """Describes the app."""

    name = "dialects_app"
