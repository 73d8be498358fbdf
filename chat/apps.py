"""Plugs conversations into the server: turns, streams, approvals, summaries."""

from mochi_project.app import MochiApp


class ChatApp(MochiApp):
    """Describes the app."""

    name = "chat"
