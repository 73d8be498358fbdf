"""Converts errors to Anthropic's format.

Clients go by the status and ``x-should-retry``; Claude Code shortens the history when it reads
"prompt is too long", with numbers, and repeats a request four times after an ``api_error`` within a
stream, but once after an ``invalid_request_error``.
"""

import re
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any

from dialects_app.shared import errors as shared
from mochi_project.errors.formats import ErrorAnswer
from mochi_project.errors.statuses import seconds_before_retry
from sessions_app.messages import NO_EXTRA

REQUEST_ID_HEADER = "request-id"

_STATUS_HERE = {"RATE_LIMITED": 429, "CONTEXT_OVERFLOW": 400, "SESSION_BUSY": 429}
"""Statuses of this protocol that differ from ours; it has no type of error for 409."""

status_of = partial(shared.status_of, here=_STATUS_HERE)
"""Returns the HTTP status of an error in this protocol."""

_SECONDS_HERE = {"SESSION_BUSY": 1}
_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_numbers_in = re.compile(r"\d[\d,]*").findall
_window_in = re.compile(r"(?:maximum|limit|window|context length)\D{0,60}(\d[\d,]*)").search


def error_answer(
    code: str,
    message: str,
    *,
    status: int | None = None,
    retryable: bool = False,
    details: Mapping[str, Any] | None = None,
) -> ErrorAnswer:
    """Return an error response; by default with the status of its code."""
    given = {**(details or NO_EXTRA)}
    status = status_of(code, status, given)
    request_id = f"req_{secrets.token_hex(12)}"
    kind = _TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    body = error_body(
        kind, code, message, request_id=request_id, details={**given, "retryable": retryable}
    )
    seconds = _SECONDS_HERE.get(code) or seconds_before_retry(code, given)
    retry = shared.retry_headers(seconds, retryable=retryable)
    return ErrorAnswer(status, body, {REQUEST_ID_HEADER: request_id, **retry})


def error_body(
    kind: str, code: str, message: str, *, request_id: str, details: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON of an error: of a response, or of an event of a stream.

    Args:
        kind: Anthropic's type of the error.
        code: Our code.
        message: Our message.
        request_id: The id of the request.
        details: The details, with ``retryable``.
    """
    if code == "CONTEXT_OVERFLOW":
        message = _too_long(message)
    error = {"type": kind, "message": message, "mochi_code": code, "details": details}
    return {"type": "error", "error": error, "request_id": request_id}


def _too_long(message: str) -> str:
    """Return a provider's message about a window that is too small in Anthropic's words."""
    numbers = sorted({_number(each) for each in _numbers_in(message)[:8]})
    if len(numbers) < 2:
        return f"prompt is too long: {message}"
    window, tokens = numbers[-2:]
    if (stated := _window_in(message)) and _number(stated[1]) < tokens:
        window = _number(stated[1])
    return f"prompt is too long: {tokens} tokens > {window} maximum. {message}"


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
