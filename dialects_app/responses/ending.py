"""Determines how a response ended: status, reason for being incomplete, error. Pure."""

from typing import Any, Literal

import msgspec

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

LOST = "The response broke off."
"""The error of a response of whose end no more is known."""

_REFUSED = "CONTENT_REFUSED"
_CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ERROR_CODES = {
    "RATE_LIMITED": "rate_limit_exceeded",
    "BUDGET_EXCEEDED": "rate_limit_exceeded",
    "CONTEXT_OVERFLOW": "invalid_prompt",
}
"""OpenAI's names of errors that it has for responses; all others are the server's."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a response, or that it is running.

    Attributes:
        status: Its status.
        cut_by: OpenAI's reason for being incomplete.
        error: The error in its resource.
    """

    status: ResponseStatus
    cut_by: str | None = None
    error: dict[str, Any] | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether the answer is complete."""
        return self.status == "completed"

    @property
    def event(self) -> str:
        """Return the name of the last event; none for a cancelled response."""
        if self.status in {"completed", "failed"}:
            return f"response.{self.status}"
        return "response.incomplete"


COMPLETED = Ending(status="completed")
CANCELLED = Ending(status="cancelled")
IN_PROGRESS = Ending(status="in_progress")
QUEUED = Ending(status="queued")


def ending_of_answer(done_reason: str | None) -> Ending:
    """Return the ending for the stop reason of the last answer."""
    cut_by = _CUT.get(done_reason or "")
    return Ending(status="incomplete", cut_by=cut_by) if cut_by else COMPLETED


def ending_of_error(code: str | None, message: str) -> Ending:
    """Return the ending of an interrupted turn.

    Args:
        code: Our error code; None if unknown.
        message: The error message.
    """
    if code == _REFUSED:
        return Ending(status="incomplete", cut_by="content_filter")
    error = {"code": _ERROR_CODES.get(code or "", "server_error"), "message": message or LOST}
    return Ending(status="failed", error=error if code is None else {**error, "mochi_code": code})
