"""Plugs conversations in a terminal into the server: the commands ``chat`` and ``send``."""

from mochi_project.app import MochiApp


class TerminalApp(MochiApp):
    """Describes the app."""

    name = "terminal_app"
