"""Plugs usage, budgets, metrics and traces into the server."""

from mochi_project.app import MochiApp


class UsageApp(MochiApp):
    """Describes the app."""

    name = "usage_app"
    routers = (
        "usage_app.api:router",
        "usage_app.budgets.api:router",
        "usage_app.metrics.api:router",
    )
