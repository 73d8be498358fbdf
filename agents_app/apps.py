"""Plugs agents into the server."""

from collections.abc import Callable, Mapping

from mochi_project.app import MochiApp, Services


class AgentsApp(MochiApp):
    """Describes the app."""

    name = "agents_app"
    routers = ("agents_app.api:router",)
    statuses = {"AGENT_NOT_FOUND": 404, "AGENT_INVALID": 422, "AGENT_STOPPED": 502}

    def chores(self, services: Services) -> Mapping[str, Callable[[], object]]:
        """Return the deletion of sessions that are kept no longer."""
        from agents_app.sweeping import SessionSweep  # noqa: PLC0415 - after the start of Django

        return {"sweep sessions": services.get(SessionSweep).run}
