"""Plugs system prompts into the server."""

from mochi_project.app import MochiApp


class PromptsApp(MochiApp):
    """Describes the app."""

    name = "prompts_app"
    routers = ("prompts_app.api:router",)
    statuses = {
        "PROMPT_NOT_FOUND": 404,
        "PROMPT_EXISTS": 409,
    }
