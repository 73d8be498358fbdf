"""Plugs the scripted models of test mode into the server."""

from mochi_project.app import MochiApp


class ScriptedApp(MochiApp):
    """Describes the app."""

    name = "scripted_app"
