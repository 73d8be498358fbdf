"""Documents the error codes of each operation in the OpenAPI document, with examples.

Routes declare statuses; the codes of each status are derived from rules on methods and paths, here
and in ``apps.py`` of the apps that may be left out. Codes
of statuses that a route does not declare are omitted.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from mochi_project.app import mochi_apps
from mochi_project.errors.statuses import envelope, statuses

_CHANGES = "^(POST|PUT|PATCH|DELETE) /api/v1/sessions/{session_id}"
_CHATS = r"^POST /api/v1/chat(/stream|/{session_id}|/{session_id}/stream)?$"
_MODELS_FAIL = (
    "OLLAMA_UNREACHABLE OLLAMA_ERROR NETWORK_ERROR UNAUTHORIZED RATE_LIMITED SERVICE_UNAVAILABLE"
)
_GROUPS = {
    "models": _MODELS_FAIL,
    "turns": (
        f"{_MODELS_FAIL} CONTEXT_OVERFLOW TURN_LIMIT_REACHED TOOL_LOOP TOOL_CALL_UNREADABLE"
        " EMPTY_ANSWER AGENT_STOPPED TOO_MANY_TURNS SHUTTING_DOWN TURN_INTERRUPTED"
        " TOO_MANY_LARGE_BODIES BUDGET_EXCEEDED BUDGETS_INVALID"
    ),
    "settings": "MODEL_NOT_FOUND PROFILE_NOT_FOUND AGENT_NOT_FOUND VALIDATION_ERROR AGENT_INVALID",
}
"""The codes that a rule may name together, in lower case."""

# Patterns for "METHOD path", with their codes. The first code of a status is its single example.
_RULES: tuple[tuple[str, str], ...] = (
    ("/variant$", "VARIANT_NOT_FOUND"),
    ("GET .*/summary$", "SUMMARY_NOT_FOUND"),
    ("/confirm-tool$", "CONFIRMATION_NOT_FOUND CONFIRMATION_ALREADY_DECIDED"),
    ("/confirm-tool$", "TOOL_CONFIRMATION_TIMEOUT"),
    ("/cancel$", "NO_ACTIVE_TURN"),
    ("{session_id}", "SESSION_NOT_FOUND SESSION_CORRUPT"),
    ("{message_index}|/fork$", "INVALID_MESSAGE_INDEX"),
    ("{message_index}|/fork$", "MESSAGE_CHANGED"),
    ("PUT .*{message_index}$", "ATTACHMENT_NOT_FOUND"),
    ("(PUT|DELETE) .*/system-prompt$|POST /api/v1/sessions$", "PROMPT_NOT_FOUND"),
    (f"{_CHANGES}|DELETE .*/agents/chats/", "SESSION_BUSY SESSION_READ_ONLY"),
    ("DELETE .*{session_id}$", "SESSION_NOT_DELETABLE"),
    (_CHATS, "ANSWER_INVALID INVALID_MESSAGE_INDEX MESSAGE_CHANGED"),
    (_CHATS, "SESSION_BUSY SESSION_READ_ONLY SESSION_NOT_FOUND SESSION_CORRUPT MESSAGE_DELETED"),
    (_CHATS, "settings ATTACHMENT_NOT_FOUND turns CONTENT_REFUSED"),
    ("/summarize$", "models MODEL_NOT_FOUND TOO_MANY_TURNS SHUTTING_DOWN"),
    ("/summarize$", "BUDGET_EXCEEDED BUDGETS_INVALID"),
    ("(POST|PATCH) /api/v1/sessions(/{session_id})?$", "SESSION_EXISTS settings"),
    ("GET .*{attachment_id}", "ATTACHMENT_NOT_FOUND"),
    ("/attachments$", "ATTACHMENT_TOO_LARGE"),
    ("GET .*/(sessions|chats|messages|context|export|{session_id})$", "TOO_MANY_LARGE_ANSWERS"),
    ("{agent_name}", "AGENT_NOT_FOUND"),
    ("{tool_name}", "TOOL_NOT_FOUND"),
    ("/mcp/servers/{name}", "NOT_FOUND SERVICE_UNAVAILABLE"),
    ("/system-prompts", "PROMPT_NOT_FOUND PROMPT_EXISTS"),
    ("/profiles", "PROFILE_NOT_FOUND PROFILE_EXISTS"),
    ("^(POST|PUT) .*/profiles", "MODEL_NOT_FOUND"),
    ("GET /api/v1/models", "MODEL_NOT_FOUND models"),
    ("/ready$", "SHUTTING_DOWN"),
)
_OF_ALL = "STORAGE_FULL STORAGE_READ_ONLY STORAGE_UNAVAILABLE INTERNAL_ERROR"

_OF_STATUS = {404: "NOT_FOUND", 409: "SESSION_BUSY", 416: "BAD_REQUEST", 502: "SERVICE_UNAVAILABLE"}
"""The default codes of statuses that a route declares and no rule covers."""

_MESSAGES: dict[str, str] = {
    "VALIDATION_ERROR": "message: String should have at least 1 character",
    "SESSION_NOT_FOUND": "Session with ID 'a1b2c3d4e5' not found.",
    "SESSION_EXISTS": "A session with ID 'a1b2c3d4e5' exists already.",
    "SESSION_CORRUPT": "The file of session 'a1b2c3d4e5' can't be read.",
    "SESSION_NOT_DELETABLE": "a1b2c3d4e5.json in the folder of sessions is a folder itself.",
    "SESSION_READ_ONLY": "Session 'a1b2c3d4e5' is of a newer release and can only be read.",
    "SESSION_BUSY": "Session 'a1b2c3d4e5' has a running turn; wait for it or cancel it.",
    "INVALID_MESSAGE_INDEX": "The session has 2 messages; 7 is out of range.",
    "MESSAGE_CHANGED": "The message at index 1 is another one.",
    "MESSAGE_DELETED": "Messages of this request's turn were deleted since it was answered.",
    "VARIANT_NOT_FOUND": "The answer has no variant with this message.",
    "ATTACHMENT_NOT_FOUND": "There is no attachment with this id; upload it again.",
    "ATTACHMENT_TOO_LARGE": "The file is larger than MOCHI_MAX_ATTACHMENT_BYTES.",
    "PROMPT_NOT_FOUND": "There is no prompt named 'helpful.md'.",
    "PROMPT_EXISTS": "A prompt named 'helpful.md' exists already.",
    "PROFILE_NOT_FOUND": "There is no profile named 'work'.",
    "PROFILE_EXISTS": "A profile named 'work' exists already.",
    "MODEL_NOT_FOUND": "Model 'qwen3:14b' not found; `ollama pull qwen3:14b` gets it.",
    "AGENT_NOT_FOUND": "There is no agent named 'coder'.",
    "AGENT_INVALID": "The agent 'coder' can't be used: it has no prompt.",
    "AGENT_STOPPED": "The agent 'coder' broke off before its answer.",
    "TOOL_NOT_FOUND": "There is no tool named 'add_numbers'.",
    "TOOL_CONFIRMATION_TIMEOUT": "The answer came too late: the call was denied.",
    "CONFIRMATION_NOT_FOUND": "The session asks no such question.",
    "CONFIRMATION_ALREADY_DECIDED": "It was decided already; that decision stands.",
    "SUMMARY_NOT_FOUND": "The session has no summary yet.",
    "NO_ACTIVE_TURN": "The session has no running turn.",
    "OLLAMA_UNREACHABLE": "Ollama can't be reached; is it running?",
    "OLLAMA_ERROR": "Ollama refused the request.",
    "TOOL_CALL_UNREADABLE": "The model wrote a tool call that could not be read (EOF).",
    "CONTEXT_OVERFLOW": "The request is longer than the context window.",
    "CONTENT_REFUSED": "The provider refuses the conversation.",
    "UNAUTHORIZED": "The provider does not accept the API key.",
    "RATE_LIMITED": "The provider has had too many requests.",
    "NETWORK_ERROR": "No connection to the provider could be made.",
    "SERVICE_UNAVAILABLE": "The service does not work just now.",
    "TURN_LIMIT_REACHED": "The model called tools in too many rounds.",
    "TOOL_LOOP": "The model repeated a call, and the result was the same each time.",
    "EMPTY_ANSWER": "The model's answers held neither text nor a call.",
    "ANSWER_INVALID": "The model's answer does not fit the schema, also after corrections.",
    "TURN_INTERRUPTED": "The process that ran the turn died; what was shown is in the session.",
    "MISSING_TOOL_RESULT": "The result of call 'call_1' is missing.",
    "SHUTTING_DOWN": "The server is stopping.",
    "TOO_MANY_TURNS": "This worker runs as many turns as it may.",
    "TOO_MANY_LARGE_ANSWERS": "Four large answers are being sent already.",
    "TOO_MANY_LARGE_BODIES": "Four large bodies are being read already.",
    "IMPORT_RUNNING": "Another import is running. Try again when it is done.",
    "STORAGE_FULL": "The disk is full.",
    "STORAGE_READ_ONLY": "The data directory is read-only.",
    "STORAGE_UNAVAILABLE": "The store can't be reached just now.",
    "NOT_FOUND": "There is nothing of this name.",
    "INTERNAL_ERROR": "An unexpected error of this server; its log has the details.",
}
_RETRYABLE = frozenset(
    {
        *("SESSION_BUSY", "OLLAMA_UNREACHABLE", "RATE_LIMITED", "NETWORK_ERROR", "EMPTY_ANSWER"),
        *("TOO_MANY_TURNS", "TOO_MANY_LARGE_ANSWERS", "TOO_MANY_LARGE_BODIES", "SHUTTING_DOWN"),
        *("STORAGE_FULL", "STORAGE_READ_ONLY", "STORAGE_UNAVAILABLE", "SERVICE_UNAVAILABLE"),
        *("TURN_INTERRUPTED", "IMPORT_RUNNING"),
    }
)

StatusOf = Callable[[str], int | None]
BodyOf = Callable[..., dict[str, Any]]


def _status_of(code: str) -> int | None:
    """Return the status of a code, if its app is installed."""
    return statuses().get(code)


def describe_errors(
    path: str,
    method: str,
    operation: dict[str, Any],
    *,
    common: Iterable[str] = (),
    status_of: StatusOf = _status_of,
    body_of: BodyOf = envelope,
) -> None:
    """Add to an operation, in place, its codes by status (``x-error-codes``), with examples.

    Args:
        path: The operation's path.
        method: The operation's method.
        operation: The operation; existing examples are kept.
        common: The codes common to all operations.
        status_of: Returns the status of a code.
        body_of: Makes the body of a response from a code and a message.
    """
    codes = dict.fromkeys([*codes_of(path, method), *common])
    said = {}
    for status, answer in operation["responses"].items():
        if int(status) < 400:
            continue
        found = [code for code in codes if status_of(code) == int(status)]
        if not found and int(status) in _OF_STATUS:
            found = [_OF_STATUS[int(status)]]
        said[str(status)] = found
        content = answer.get("content", {}).get("application/json")
        if content is not None and found and "example" not in content:
            content["examples"] = {code: {"value": _example(code, body_of)} for code in found}
    operation["x-error-codes"] = said


def codes_of(path: str, method: str) -> list[str]:
    """Return the error codes of an operation without duplicates, specific ones first."""
    operation = f"{method.upper()} {path}"
    of_apps = (rule for app in mochi_apps() for rule in app.error_rules)
    rules = (*of_apps, *_RULES, ("", _OF_ALL))
    names = " ".join(codes for pattern, codes in rules if re.search(pattern, operation))
    words = (_GROUPS.get(name, name) for name in names.split())
    return list(dict.fromkeys(" ".join(words).split()))


def _example(code: str, body_of: BodyOf) -> dict[str, Any]:
    messages = _MESSAGES | {k: v for app in mochi_apps() for k, v in app.error_examples.items()}
    message = messages.get(code, "The request makes no sense to this server.")
    return body_of(code, message, retryable=code in _RETRYABLE)
