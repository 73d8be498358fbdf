"""Plugs the protocols of other clients into the server."""

from mochi_project.app import ForeignApi, MochiApp

_CLAUDES = "dialects_app.messages.errors:error_answer"


def _openai(prefix: str, namespace: str) -> ForeignApi:
    return ForeignApi(
        prefix=prefix,
        namespace=namespace,
        routers=(
            "dialects_app.api:router",
            "dialects_app.chat_completions.api:router",
            "dialects_app.messages.api:router",
            "dialects_app.responses.api:router",
        ),
        module="dialects_app.openai_api",
        errors="dialects_app.shared.errors:error_answer",
        errors_below={f"{prefix}/messages": _CLAUDES},
        errors_with={"anthropic-version": _CLAUDES},
    )


OPENAI = _openai("/v1", "openai")
OPENAI_AT_OLLAMA = _openai("/ollama/v1", "openai-at-ollama")
"""Ollama has both protocols, and so its clients find both at the address of Ollama."""

OLLAMA = ForeignApi(
    prefix="/ollama",
    namespace="ollama",
    routers=("dialects_app.ollama.api:router",),
    module="dialects_app.ollama_api",
    errors="dialects_app.ollama.errors:error_answer",
)

MCP = ForeignApi(
    prefix="/mcp",
    namespace="mcp",
    routers=(),
    module="dialects_app.mcp.api",
    errors="dialects_app.mcp.protocol:error_answer",
    setting="mcp_server",
)

_UI = r"^POST /api/v1/(ui/.*|agui)$"
_OPENAI = "^POST /v1/(chat/completions|messages|responses)$"
ERROR_RULES = (
    ("{thread_id}", "SESSION_NOT_FOUND SESSION_CORRUPT"),
    ("/agui$", "CHAT_DIFFERS TOOL_CONFIRMATION_TIMEOUT"),
    ("/agui$", "CONFIRMATION_NOT_FOUND CONFIRMATION_ALREADY_DECIDED MISSING_TOOL_RESULT"),
    ("DELETE .*{conversation_id}$", "SESSION_NOT_DELETABLE"),
    ("^POST .*/ui/chat$", "CHAT_DIFFERS ATTACHMENT_TOO_LARGE TOOL_CONFIRMATION_TIMEOUT"),
    ("^POST .*/ui/chat$", "CONFIRMATION_NOT_FOUND CONFIRMATION_ALREADY_DECIDED PROMPT_NOT_FOUND"),
    (_UI, "SESSION_BUSY SESSION_READ_ONLY SESSION_NOT_FOUND SESSION_CORRUPT"),
    (f"{_UI}|{_OPENAI}", "MESSAGE_DELETED"),
    (_UI, "settings ATTACHMENT_NOT_FOUND turns CONTENT_REFUSED"),
    ("/compact$", "BUDGET_EXCEEDED BUDGETS_INVALID models"),
    ("^GET /v1/models", "MODEL_NOT_FOUND models"),
    ("/count_tokens$", "MODEL_NOT_FOUND"),
    ("{response_id}", "RESPONSE_NOT_FOUND"),
    ("GET .*{response_id}$", "RESPONSE_NOT_STREAMABLE"),
    ("{item_id}|GET .*items$", "ITEM_NOT_FOUND"),
    ("{conversation_id}", "CONVERSATION_NOT_FOUND"),
    ("/v1/(responses|conversations)/{.*}|/items", "SESSION_BUSY SESSION_READ_ONLY"),
    (
        "^POST /v1/responses(/input_tokens|/compact)?$",
        "MODEL_NOT_FOUND PREVIOUS_RESPONSE_NOT_FOUND CONVERSATION_NOT_FOUND",
    ),
    (_OPENAI, "VALIDATION_ERROR MISSING_TOOL_RESULT SESSION_BUSY SESSION_READ_ONLY"),
    (_OPENAI, "MODEL_NOT_FOUND SESSION_NOT_FOUND turns"),
    ("^POST /v1/", "ATTACHMENT_NOT_FOUND ITEM_NOT_FOUND"),
)


class DialectsApp(MochiApp):
    """Describes the app."""

    name = "dialects_app"
    routers = ("dialects_app.ag_ui.api:router", "dialects_app.ai_sdk.api:router")
    apis = (OPENAI, OPENAI_AT_OLLAMA, OLLAMA, MCP)  # the longer prefix first
    components = (
        "dialects_app.ag_ui.description:body_schemas",
        "dialects_app.ai_sdk.openapi:ui_schemas",
    )
    error_rules = ERROR_RULES
    statuses = {
        "RESPONSE_NOT_FOUND": 404,
        "RESPONSE_NOT_STREAMABLE": 400,
        "PREVIOUS_RESPONSE_NOT_FOUND": 400,
        "CONVERSATION_NOT_FOUND": 404,
        "ITEM_NOT_FOUND": 404,
        "CHAT_DIFFERS": 409,
        "UPGRADE_REQUIRED": 426,
    }
