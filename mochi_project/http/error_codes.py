"""Documents the error codes of each operation in the OpenAPI document.

Routes declare statuses; the codes of each status are derived from rules on methods and paths, here
and in ``apps.py`` of the apps that may be left out. Codes
of statuses that a route does not declare are omitted.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from mochi_project.app import mochi_apps
from mochi_project.errors.statuses import statuses

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

# Patterns for "METHOD path", with their codes.
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
    (_CHATS, "INBOX_FULL"),
    ("{session_id}/stream$|/inbox/{message_id}$", "QUEUED_MESSAGE_NOT_FOUND"),
    ("(PUT|DELETE) .*/inbox/{message_id}$", "QUEUED_MESSAGE_TAKEN"),
    ("PUT .*/inbox/{message_id}$", "INBOX_FULL ATTACHMENT_NOT_FOUND"),
    ("(PUT|POST|DELETE) .*/inbox", "SESSION_READ_ONLY"),
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


def describe_errors(
    path: str,
    method: str,
    operation: dict[str, Any],
    *,
    common: Iterable[str] = (),
    status_of: Callable[[str], int | None] = lambda code: statuses().get(code),
) -> None:
    """Add the codes of each status to an operation, in place: ``x-error-codes``, and in words."""
    codes = dict.fromkeys([*codes_of(path, method), *common])
    said = {}
    for status, answer in operation["responses"].items():
        if int(status) < 400:
            continue
        found = [code for code in codes if status_of(code) == int(status)]
        if not found and int(status) in _OF_STATUS:
            found = [_OF_STATUS[int(status)]]
        said[str(status)] = found
        if "description" in answer:
            names = ", ".join(f"`{code}`" for code in found)
            described = f"{answer['description'].rstrip('.')}: {names}"
            operation["responses"][status] = {**answer, "description": described}
    operation["x-error-codes"] = said


def codes_of(path: str, method: str) -> list[str]:
    """Return the error codes of an operation without duplicates, specific ones first."""
    operation = f"{method.upper()} {path}"
    of_apps = (rule for app in mochi_apps() for rule in app.error_rules)
    rules = (*of_apps, *_RULES, ("", _OF_ALL))
    names = " ".join(codes for pattern, codes in rules if re.search(pattern, operation))
    words = (_GROUPS.get(name, name) for name in names.split())
    return list(dict.fromkeys(" ".join(words).split()))
