"""Plugs the server itself together: configuration, serving, background work."""

from mochi_project.app import MochiApp
from mochi_project.errors.statuses import RETRY_AFTER_OF_CODE, STATUS_OF_CODE


class ServerApp(MochiApp):
    """Describes the app."""

    name = "mochi_project"
    routers = ("mochi_project.http.api:router",)
    statuses = STATUS_OF_CODE
    retry_after = RETRY_AFTER_OF_CODE
