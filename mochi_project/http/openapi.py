"""Adds to the OpenAPI schema the errors of all routes: the guard's and the error handlers'."""

from functools import cache
from typing import Any

from agents_app.agent import NAME_PATTERN as AGENT_NAME_PATTERN
from chat.activity.openapi import activity_schemas
from chat.http.openapi import event_schemas
from chat.http.sse import EVENT_ID_PATTERN
from chat.storage.change_log import POSITION_PATTERN
from mochi_project.errors.statuses import STATUS_OF_CODE
from mochi_project.http.error_codes import describe_errors
from mochi_project.routing import native_routes
from models_app.profiles import NAME_PATTERN as PROFILE_NAME_PATTERN
from sessions_app.http.error_schemas import ErrorResponse
from sessions_app.http.wire_patterns import PROMPT_FILE, SESSION_ID_PATTERN
from sessions_app.session import MODEL_NAME_LENGTH
from tools_app.mcp.config import NAME_PATTERN as SERVER_NAME_PATTERN

TAGS = {
    "chat": "Turns: start one, follow its events, stop it, approve its tools.",
    "sessions": "Conversations and their settings, messages and variants.",
    "attachments": "Images and files of messages.",
    "agents": "Agents, and the sessions that they keep.",
    "tools": "Tools, what they were called for, and the MCP servers that offer some.",
    "system prompts": "Prompt files that sessions can begin with.",
    "models": "The models of all providers.",
    "profiles": "Named configurations of models.",
    "usage": "Tokens and costs of model calls.",
    "keys": "Who may use the server, for which owner and for what.",
    "server": "Whether the server works, and takes requests.",
    "OpenAI": "OpenAI's protocols: chat completions, responses, conversations.",
    "Anthropic": "Anthropic's protocol: messages, and their tokens.",
    "AI SDK": "Streams and messages for `useChat` of the AI SDK.",
    "AG-UI": "AG-UI 1.0, for `HttpAgent` and CopilotKit.",
}
"""The tags with their descriptions."""

SCOPE = "x-mochi-scope"
"""The extension of an operation that names the scope which a key needs for it (docs/keys.md)."""

PLAIN_TEXT_ERRORS = "x-plain-text-errors"
"""The mark, in ``openapi_extra``, of an operation whose errors may be plain text."""

# component name: (code, description)
_COMMON: dict[str, tuple[str, str]] = {
    "BadRequest": ("BAD_REQUEST", "The body is not JSON that means one thing only."),
    "Unauthenticated": ("UNAUTHENTICATED", "Authentication required: a bearer token."),
    "Forbidden": (
        "FORBIDDEN",
        "The `Host` or the `Origin` is not allowed, or the key lacks the scope of `x-mochi-scope`.",
    ),
    "BodyTimeout": ("REQUEST_TIMEOUT", "The body took too long to arrive."),
    "PayloadTooLarge": (
        "PAYLOAD_TOO_LARGE",
        "The body is larger than the setting in the message allows.",
    ),
    "UnsupportedMediaType": ("UNSUPPORTED_MEDIA_TYPE", "The body is not declared as JSON."),
    "ValidationFailed": (
        "VALIDATION_ERROR",
        "A parameter or a field has the wrong shape or value; `details.field` names it.",
    ),
    "InternalError": ("INTERNAL_ERROR", "A bug in this server."),
}
_OF_ALL_ROUTES = ("Forbidden", "InternalError")
_OF_TOKEN_ROUTES = ("Unauthenticated",)
_OF_ROUTES_WITH_INPUT = ("ValidationFailed",)
_OF_ROUTES_WITH_BODY = (
    "BadRequest",
    "BodyTimeout",
    "PayloadTooLarge",
    "UnsupportedMediaType",
)

# Rules of parameters, by the first part of the path if a name is ambiguous. The services check
# them; in a path, an invalid value is mostly reported as not found.
_PARAMETER_RULES: dict[str, dict[str, dict[str, Any]]] = {
    "session_id": {"": {"pattern": SESSION_ID_PATTERN}},
    "after": {"": {"pattern": EVENT_ID_PATTERN}, "events": {"pattern": POSITION_PATTERN}},
    "Last-Event-ID": {"": {"pattern": EVENT_ID_PATTERN}, "events": {"pattern": POSITION_PATTERN}},
    "message_index": {"": {"minimum": 0}},
    "filename": {"": PROMPT_FILE},
    "model_name": {"": {"minLength": 1, "maxLength": MODEL_NAME_LENGTH}},
    "agent_name": {"": {"pattern": AGENT_NAME_PATTERN}},
    "name": {
        "profiles": {"pattern": PROFILE_NAME_PATTERN},
        "mcp": {"pattern": f"^{SERVER_NAME_PATTERN}$"},
    },
}

_REF = "#/components/schemas/{model}"
_ERROR = {"$ref": _REF.format(model="ErrorResponse")}


def describe_common_answers(schema: dict[str, Any]) -> None:
    """Add the common responses and the authentication to a schema, in place."""
    components = schema["components"]
    error_schema = ErrorResponse.model_json_schema(ref_template=_REF)
    components["schemas"].update(error_schema.pop("$defs"))
    components["schemas"]["ErrorResponse"] = error_schema
    components["schemas"].update(event_schemas())
    components["schemas"].update(activity_schemas())
    components["responses"] = {name: _response(*entry) for name, entry in _COMMON.items()}
    components.setdefault("securitySchemes", {})["bearer"] = {
        "type": "http",
        "scheme": "bearer",
        "description": "A key, `MOCHI_API_TOKEN`, or the token that the server printed when it "
        "started",
    }
    schema["security"] = [{}, {"bearer": []}]
    schema["servers"] = [{"url": "/", "description": "The server that this document is from"}]
    schema["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            _describe_input(schema, path, method)
            _describe(path, method, operation)


def by_tags(paths: dict[str, Any]) -> dict[str, Any]:
    """Return the paths in the order of their tags, whichever apps they are of."""
    order = list(TAGS)

    def place(path: str) -> int:
        operation = next(iter(paths[path].values()))
        return order.index(operation["tags"][0])

    return {path: paths[path] for path in sorted(paths, key=place)}


def _describe_input(schema: dict[str, Any], path: str, method: str) -> None:
    """Describe an operation's input beyond what its signature says."""
    operation = schema["paths"][path][method]
    describe_parameters(path, operation)
    contents = operation.get("requestBody", {}).get("content", {})
    if method == "post" and (content := contents.get("application/json")) is not None:
        body = schema["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
        # The middleware treats a missing body as {}, which may be valid.
        forms = body.get("anyOf", [body])
        operation["requestBody"]["required"] = all("required" in {**body, **each} for each in forms)


def describe_parameters(path: str, operation: dict[str, Any]) -> None:
    """Add the constraints checked in code to an operation's parameters, in place."""
    first = path.removeprefix("/api").split("/")[2]
    for parameter in operation["parameters"]:
        rules = _PARAMETER_RULES.get(parameter["name"], {})
        _without_null(parameter["schema"])
        parameter["schema"] |= rules.get(first, rules.get("", {}))


def _without_null(parameter: dict[str, Any]) -> None:
    """Remove null from a parameter's schema, as it would be sent as the text "null"."""
    kinds = [kind for kind in parameter.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del parameter["anyOf"]
        parameter |= kinds[0]


def _describe(path: str, method: str, operation: dict[str, Any]) -> None:
    names = list(_OF_ALL_ROUTES)
    if operation["operationId"] not in _token_free():
        names += _OF_TOKEN_ROUTES
    if "requestBody" in operation:
        names += _OF_ROUTES_WITH_BODY
    if "requestBody" in operation or operation["parameters"]:
        names += _OF_ROUTES_WITH_INPUT
    declared = operation["responses"]
    for status, answer in declared.items():
        if int(status) >= 400:
            answer["content"] = {"application/json": {"schema": _ERROR}}
    for name in names:
        status = STATUS_OF_CODE[_COMMON[name][0]]
        if status not in declared:
            declared[status] = {"$ref": f"#/components/responses/{name}"}
    operation["responses"] = dict(sorted(declared.items(), key=lambda item: int(item[0])))
    describe_errors(path, method, operation, common=[_COMMON[name][0] for name in names])
    if operation.pop(PLAIN_TEXT_ERRORS, False):
        _describe_sentences(operation)


@cache
def _token_free() -> frozenset[str | None]:
    """Return the operations that need no token."""
    return frozenset(each.operation_id for each in native_routes() if not each.needs.token)


def _describe_sentences(operation: dict[str, Any]) -> None:
    """Document, in place, that an operation's errors may be plain text."""
    sentence = {"schema": {"type": "string"}, "example": "A sentence that says what to change."}
    answers = operation["responses"]
    for status, answer in answers.items():
        if int(status) >= 400:
            name = answer.get("$ref", "").rpartition("/")[2]
            whole = _response(*_COMMON[name]) if name else answer
            answers[status] = {**whole, "content": {**whole["content"], "text/plain": sentence}}


def _response(code: str, description: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ERROR}}
    return {"description": f"{description} `{code}`", "content": content}
