"""Maps error codes to HTTP statuses, and builds the one error envelope.

This module does not depend on Django or Ninja; ``handlers.py`` converts exceptions to responses.
"""

import math
from collections.abc import Mapping
from typing import Any

ERROR_HEADER = "x-mochi-error"
"""The response header with the error code when the body is plain text, not the envelope."""

STATUS_OF_CODE: dict[str, int] = {
    "VALIDATION_ERROR": 422,
    "SESSION_NOT_FOUND": 404,
    "SESSION_EXISTS": 409,
    "SESSION_CORRUPT": 500,
    "SESSION_READ_ONLY": 409,
    "SESSION_NOT_DELETABLE": 409,
    "SESSION_BUSY": 409,
    "INVALID_MESSAGE_INDEX": 400,
    "MESSAGE_CHANGED": 409,
    "MESSAGE_DELETED": 409,
    "VARIANT_NOT_FOUND": 404,
    "ATTACHMENT_NOT_FOUND": 404,
    "ATTACHMENT_TOO_LARGE": 413,
    "STORAGE_FULL": 507,
    "STORAGE_READ_ONLY": 507,
    "STORAGE_UNAVAILABLE": 503,
    "PROMPT_NOT_FOUND": 404,
    "PROMPT_EXISTS": 409,
    "PROFILE_NOT_FOUND": 404,
    "PROFILE_EXISTS": 409,
    "MODEL_NOT_FOUND": 404,
    "OLLAMA_UNREACHABLE": 502,
    "OLLAMA_ERROR": 502,
    "CONTEXT_OVERFLOW": 502,
    "CONTENT_REFUSED": 502,
    "UNAUTHORIZED": 502,
    "RATE_LIMITED": 502,
    "NETWORK_ERROR": 502,
    "BUDGET_EXCEEDED": 402,
    "BUDGETS_INVALID": 500,
    "AGENT_NOT_FOUND": 404,
    "AGENT_INVALID": 422,
    "AGENT_STOPPED": 502,
    "TOOL_NOT_FOUND": 404,
    "TOOL_EXECUTION_DENIED": 403,
    "TOOL_EXECUTION_FAILED": 500,
    "TOOL_CONFIRMATION_TIMEOUT": 408,
    "CONFIRMATION_NOT_FOUND": 404,
    "CONFIRMATION_ALREADY_DECIDED": 409,
    "SERVICE_UNAVAILABLE": 502,
    "SUMMARY_NOT_FOUND": 404,
    "NO_ACTIVE_TURN": 409,
    "TURN_LIMIT_REACHED": 502,
    "EMPTY_ANSWER": 502,
    "TURN_INTERRUPTED": 503,
    "MISSING_TOOL_RESULT": 400,
    "SHUTTING_DOWN": 503,
    "TOO_MANY_TURNS": 503,
    "TOO_MANY_LISTENERS": 503,
    "TOO_MANY_LARGE_ANSWERS": 503,
    "TOO_MANY_LARGE_BODIES": 503,
    "IMPORT_RUNNING": 503,
    "RESPONSE_NOT_FOUND": 404,
    "RESPONSE_NOT_STREAMABLE": 400,
    "PREVIOUS_RESPONSE_NOT_FOUND": 400,
    "CONVERSATION_NOT_FOUND": 404,
    "ITEM_NOT_FOUND": 404,
    "CHAT_DIFFERS": 409,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "PAYLOAD_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "FORBIDDEN": 403,
    "UNAUTHENTICATED": 401,
    "REQUEST_TIMEOUT": 408,
    "HEADERS_TOO_LARGE": 431,
    "BAD_REQUEST": 400,
    "INTERNAL_ERROR": 500,
}


# Seconds before a retry; sent as ``Retry-After``.
RETRY_AFTER_OF_CODE: dict[str, int] = {
    "SESSION_BUSY": 1,
    "TOO_MANY_TURNS": 5,
    "TOO_MANY_LISTENERS": 5,
    "TOO_MANY_LARGE_ANSWERS": 5,
    "TOO_MANY_LARGE_BODIES": 5,
    "IMPORT_RUNNING": 5,
    "SHUTTING_DOWN": 5,
}


_BUSY = 503
_BUSY_SECONDS = 5


def status_of_error(code: str, details: Mapping[str, Any]) -> int:
    """Return the HTTP status of an error; that of a busy provider says so, too."""
    status = STATUS_OF_CODE.get(code, 500)
    return _BUSY if status == 502 and details.get("status") == _BUSY else status


def seconds_before_retry(code: str, details: Mapping[str, Any]) -> int | None:
    """Return the value of ``Retry-After``: the provider's own, or the one of the code."""
    busy = code not in RETRY_AFTER_OF_CODE and details.get("status") == _BUSY
    after = details.get("retry_after") or (_BUSY_SECONDS if busy else RETRY_AFTER_OF_CODE.get(code))
    return math.ceil(after) if isinstance(after, int | float) and 0 < after < math.inf else None


def envelope(
    code: str, message: str, *, retryable: bool = False, details: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the body of an error response (docs/events.md)."""
    return {
        "error": {
            "code": code,
            "message": message,
            "details": {**(details or {}), "retryable": retryable},
        }
    }
