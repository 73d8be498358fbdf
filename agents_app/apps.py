"""Plugs agents into the server."""

from mochi_project.app import MochiApp


class AgentsApp(MochiApp):
    """Describes the app."""

    name = "agents_app"
    routers = ("agents_app.api:router",)
    statuses = {
        "AGENT_NOT_FOUND": 404,
        "AGENT_INVALID": 422,
        "AGENT_STOPPED": 502,
    }
