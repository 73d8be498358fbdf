"""Plugs conversations into the server: turns, streams, approvals, summaries."""

from mochi_project.app import MochiApp


class ChatApp(MochiApp):
    """Describes the app."""

    name = "chat"
    routers = (
        "chat.api:router",
        "chat.approvals.api:router",
        "chat.summaries.api:router",
        "chat.activity.api:router",
    )
