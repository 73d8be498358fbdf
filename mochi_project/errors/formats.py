"""Makes error responses in the format of a path: the envelope, or that of an app's own API."""

import json
from collections.abc import Callable, Container, Mapping
from itertools import chain
from pkgutil import resolve_name
from typing import Any, cast

import msgspec

from mochi_project.app import foreign_apis
from mochi_project.errors.statuses import envelope, seconds_before_retry, status_of_error


class ErrorAnswer(msgspec.Struct, frozen=True):
    """An error response.

    Attributes:
        status: The HTTP status.
        body: The JSON of the body.
        headers: Additional headers, with lower-case names.
    """

    status: int
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def data(self) -> bytes:
        """The encoded body."""
        return json.dumps(self.body, default=str).encode()


ErrorFormat = Callable[..., ErrorAnswer]
"""Makes the errors of an API in its own format, with the parameters of ``error_answer``."""


def error_format(path: str, headers: Container[str] = ()) -> ErrorFormat | None:
    """Return the format of errors of a request; None for the envelope."""
    for api in foreign_apis():
        if api.has(path):
            of_path = (name for begin, name in api.errors_below.items() if path.startswith(begin))
            of_client = (name for header, name in api.errors_with.items() if header in headers)
            return cast("ErrorFormat", resolve_name(next(chain(of_path, of_client), api.errors)))
    return None


def error_answer(
    code: str,
    message: str,
    *,
    status: int | None = None,
    retryable: bool = False,
    details: Mapping[str, Any] | None = None,
    path: str = "",
    headers: Container[str] = (),
) -> ErrorAnswer:
    """Return an error response.

    Args:
        code: The error's code.
        message: The human-readable message.
        status: The HTTP status; by default the one of ``code``.
        retryable: Whether the same request may succeed later.
        details: Machine-readable details.
        path: The request path, which says the format.
        headers: The names of the request's headers, which may say it as well.
    """
    facts = dict(details or {})
    if (make := error_format(path, headers)) is not None:
        return make(code, message, status=status, retryable=retryable, details=facts)
    seconds = seconds_before_retry(code, facts)
    return ErrorAnswer(
        status or status_of_error(code, facts),
        envelope(code, message, retryable=retryable, details=facts),
        {} if seconds is None else {"retry-after": str(seconds)},
    )
