"""Defines the management commands of the app."""

COMMANDS = {
    # The core's command, to which this app adds actions.
    "sessions": "list, show, export, import, delete, check and copy sessions",
    "backup": "copy all that must be kept to a new directory, also while the server runs",
    "restore": "put a backup back",
}
