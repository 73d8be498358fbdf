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
    statuses = {
        "SESSION_NOT_FOUND": 404,
        "SESSION_EXISTS": 409,
        "SESSION_CORRUPT": 500,
        "SESSION_READ_ONLY": 409,
        "SESSION_NOT_DELETABLE": 409,
        "SESSION_BUSY": 409,
        "INVALID_MESSAGE_INDEX": 400,
        "MESSAGE_CHANGED": 409,
        "VARIANT_NOT_FOUND": 404,
        "INBOX_FULL": 409,
        "QUEUED_MESSAGE_NOT_FOUND": 404,
        "QUEUED_MESSAGE_TAKEN": 409,
        "ATTACHMENT_NOT_FOUND": 404,
        "ATTACHMENT_TOO_LARGE": 413,
        "STORAGE_FULL": 507,
        "STORAGE_READ_ONLY": 507,
        "STORAGE_UNAVAILABLE": 503,
        "IMPORT_RUNNING": 503,
    }
    retry_after = {"SESSION_BUSY": 1, "IMPORT_RUNNING": 5}
