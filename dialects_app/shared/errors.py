"""Converts errors to OpenAI's format. Pure.

Both official packages expose ``message``, ``type``, ``param`` and ``code`` of ``error``; our own
fields are ``mochi_code`` and ``details``. The packages retry a request on 408, 409, 429 and from
500 on, unless ``x-should-retry`` is false.
"""

from collections.abc import Mapping
from typing import Any

from mochi_project.errors.formats import ErrorAnswer
from mochi_project.errors.statuses import seconds_before_retry, status_of_error
from sessions_app.messages import NO_EXTRA

_STATUS_HERE = {"RATE_LIMITED": 429, "BUDGET_EXCEEDED": 429, "CONTEXT_OVERFLOW": 400}
"""Statuses of these protocols that differ from ours.

By the status and the type of an error clients know what to do: some repeat each 5xx, whatever
``x-should-retry`` says, and shorten the history only after a 400.
"""

_OF_A_MODEL = frozenset({"MODEL_NOT_FOUND", "PROFILE_NOT_FOUND", "AGENT_NOT_FOUND"})
_CODES = {
    **dict.fromkeys(_OF_A_MODEL, "model_not_found"),
    "VALIDATION_ERROR": "invalid_value",
    "UNAUTHENTICATED": "invalid_api_key",
    "CONTEXT_OVERFLOW": "context_length_exceeded",
    "CONTENT_REFUSED": "content_filter",
    "BUDGET_EXCEEDED": "insufficient_quota",
    "NOT_FOUND": "unknown_url",
    "METHOD_NOT_ALLOWED": "method_not_supported",
}
"""OpenAI's names of errors; others have our own code in lower case.

``details.problem`` of an error is OpenAI's name of what is wrong with an image, and goes before.
"""

_WORDS_OF_CODES = {
    "CONTEXT_OVERFLOW": "Your input exceeds the context window of this model "
    "(context_length_exceeded). "
}
"""OpenAI's words, before ours: LangChain knows this error by them and not by its code."""

_TYPES_OF_CODES = {"BUDGET_EXCEEDED": "insufficient_quota"}
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def error_answer(
    code: str,
    message: str,
    *,
    status: int | None = None,
    retryable: bool = False,
    details: Mapping[str, Any] | None = None,
) -> ErrorAnswer:
    """Return an error response; by default with the status of its code."""
    given = details or {}
    error = error_object(code, message, status=status, retryable=retryable, details=given)
    headers = retry_headers(seconds_before_retry(code, given), retryable=retryable)
    return ErrorAnswer(status_of(code, status, given), {"error": error}, headers)


def retry_headers(seconds: int | None, *, retryable: bool) -> dict[str, str]:
    """Return the headers that tell clients whether to try again, and when."""
    headers = {} if retryable else {"x-should-retry": "false"}
    return headers if seconds is None else {**headers, "retry-after": str(seconds)}


def error_object(
    code: str,
    message: str,
    *,
    status: int | None = None,
    retryable: bool = False,
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the value of ``error`` for a response or a stream event."""
    given = {**(details or {})}
    return {
        "message": _WORDS_OF_CODES.get(code, "") + message,
        "type": _TYPES_OF_CODES.get(code) or type_of(status_of(code, status)),
        "param": given.get("field") or ("model" if code in _OF_A_MODEL else None),
        "code": given.get("problem") or _code_of(code, retryable=retryable),
        "mochi_code": code,
        "details": {**given, "retryable": retryable},
    }


def status_of(
    code: str,
    status: int | None = None,
    details: Mapping[str, Any] = NO_EXTRA,
    *,
    here: Mapping[str, int] = _STATUS_HERE,
) -> int:
    """Return the HTTP status of an error in these protocols, which don't use 422.

    Args:
        code: Our code.
        status: The status in our own protocol, if it differs from the code's.
        details: The details of the error.
        here: The statuses of the protocol that differ from ours.
    """
    status = here.get(code) or status or status_of_error(code, details)
    return 400 if status == 422 else status


def type_of(status: int) -> str:
    """Return OpenAI's error ``type`` for a status."""
    return "server_error" if status >= 500 else _TYPES.get(status, "invalid_request_error")


def _code_of(code: str, *, retryable: bool) -> str:
    if code == "RATE_LIMITED":
        return "rate_limit_exceeded" if retryable else "insufficient_quota"
    return _CODES.get(code, code.lower())
