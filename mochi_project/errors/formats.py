"""Finds the format of errors of a path: the envelope, or that of an app's own API."""

from pkgutil import resolve_name
from typing import Any, Protocol, cast

import msgspec

from mochi_project.app import foreign_apis


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


class ErrorFormat(Protocol):
    """Makes the errors of an API in its own format."""

    def __call__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        details: dict[str, Any] | None = None,
    ) -> ErrorAnswer:
        """Return an error response; by default with the status of its code."""


def error_format(path: str) -> ErrorFormat | None:
    """Return the format of errors of a path; None for the envelope."""
    for api in foreign_apis():
        if api.has(path):
            return cast("ErrorFormat", resolve_name(api.errors))
    return None
