"""Plugs language models into the server."""

from mochi_project.app import MochiApp


class ModelsApp(MochiApp):
    """Describes the app."""

    name = "models_app"
    routers = ("models_app.api:router",)
    statuses = {
        "PROFILE_NOT_FOUND": 404,
        "PROFILE_EXISTS": 409,
        "MODEL_NOT_FOUND": 404,
        "OLLAMA_UNREACHABLE": 502,
        "OLLAMA_ERROR": 502,
        "TOOL_CALL_UNREADABLE": 502,
        "CONTEXT_OVERFLOW": 502,
        "CONTENT_REFUSED": 502,
        "UNAUTHORIZED": 502,
        "RATE_LIMITED": 502,
        "NETWORK_ERROR": 502,
        "SERVICE_UNAVAILABLE": 502,
    }
