"""Plugs imports and exports into the server."""

from mochi_project.app import MochiApp


class TransferApp(MochiApp):
    """Describes the app."""

    name = "transfer_app"
    routers = ("transfer_app.api:router",)
    error_rules = (("^POST .*/import$", "VALIDATION_ERROR IMPORT_RUNNING"),)
    session_actions = ("transfer_app.management.session_actions:SessionActions",)
