"""Plugs the protocols of other clients into the server."""

from mochi_project.app import ForeignApi, MochiApp

OPENAI = ForeignApi(
    prefix="/v1",
    namespace="openai",
    routers=(
        "dialects_app.api:router",
        "dialects_app.chat_completions.api:router",
        "dialects_app.responses.api:router",
    ),
    module="dialects_app.openai_api",
    errors="dialects_app.shared.errors:error_answer",
)


class DialectsApp(MochiApp):
    """Describes the app."""

    name = "dialects_app"
    routers = ("dialects_app.ag_ui.api:router", "dialects_app.ai_sdk.api:router")
    apis = (OPENAI,)
    components = (
        "dialects_app.ag_ui.description:body_schemas",
        "dialects_app.ai_sdk.openapi:ui_schemas",
    )
    statuses = {
        "RESPONSE_NOT_FOUND": 404,
        "RESPONSE_NOT_STREAMABLE": 400,
        "PREVIOUS_RESPONSE_NOT_FOUND": 400,
        "CONVERSATION_NOT_FOUND": 404,
        "ITEM_NOT_FOUND": 404,
        "CHAT_DIFFERS": 409,
    }
