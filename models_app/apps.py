"""Plugs language models into the server."""

from mochi_project.app import MochiApp


class ModelsApp(MochiApp):
    """Describes the app."""

    name = "models_app"
    routers = ("models_app.api:router",)
