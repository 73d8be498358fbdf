"""Maps error codes to HTTP statuses, and builds the one error envelope.

Each app declares the statuses of its errors (``statuses`` in its ``apps.py``); here are those of
the guard and of the framework. ``handlers.py`` converts exceptions to responses.
"""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from mochi_project.app import mochi_apps

ERROR_HEADER = "x-mochi-error"
"""The response header with the error code when the body is plain text, not the envelope."""

STATUS_OF_CODE: Mapping[str, int] = {
    "VALIDATION_ERROR": 422,
    "SHUTTING_DOWN": 503,
    "TOO_MANY_LARGE_ANSWERS": 503,
    "TOO_MANY_LARGE_BODIES": 503,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "PAYLOAD_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "FORBIDDEN": 403,
    "KEY_NOT_FOUND": 404,
    "KEYS_INVALID": 500,
    "UNAUTHENTICATED": 401,
    "REQUEST_TIMEOUT": 408,
    "HEADERS_TOO_LARGE": 431,
    "BAD_REQUEST": 400,
    "INTERNAL_ERROR": 500,
}


RETRY_AFTER_OF_CODE: Mapping[str, int] = {
    "TOO_MANY_LARGE_ANSWERS": 5,
    "TOO_MANY_LARGE_BODIES": 5,
    "SHUTTING_DOWN": 5,
}
"""Seconds before a retry; sent as ``Retry-After``."""

_BUSY = 503
_BUSY_SECONDS = 5


@cache
def statuses() -> Mapping[str, int]:
    """Return the HTTP status of each code of the installed apps."""
    return {code: status for app in mochi_apps() for code, status in app.statuses.items()}


@cache
def retry_after() -> Mapping[str, int]:
    """Return the value of ``Retry-After`` of each code of the installed apps that has one."""
    return {code: seconds for app in mochi_apps() for code, seconds in app.retry_after.items()}


def status_of_error(code: str, details: Mapping[str, Any]) -> int:
    """Return the HTTP status of an error; that of a busy provider says so, too."""
    status = statuses().get(code, 500)
    return _BUSY if status == 502 and details.get("status") == _BUSY else status


def seconds_before_retry(code: str, details: Mapping[str, Any]) -> int | None:
    """Return the value of ``Retry-After``: the provider's own, or the one of the code."""
    busy = code not in retry_after() and details.get("status") == _BUSY
    after = details.get("retry_after") or (_BUSY_SECONDS if busy else retry_after().get(code))
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
