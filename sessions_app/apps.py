"""Plugs the sessions into the server: their files, their routes."""

from mochi_project.app import MochiApp


class SessionsApp(MochiApp):
    """Describes the app."""

    name = "sessions_app"
    routers = (
        "sessions_app.api:router",
        "sessions_app.editing.api:router",
        "sessions_app.uploads.api:router",
    )
