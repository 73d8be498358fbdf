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
    """Describes how a response ended, or that it goes on.

    Attributes:
        status: Its status.
        cut_by: Why it is incomplete, in OpenAI's words.
        error: Why it failed, as its resource says it.
    """

    status: ResponseStatus
    cut_by: str | None = None
    error: dict[str, Any] | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether the model said all that it wanted to say."""
        return self.status == "completed"

    @property
    def event(self) -> str:
        """Return the name of the last event; there is none for a response that was cancelled."""
        if self.status in {"completed", "failed"}:
            return f"response.{self.status}"
        return "response.incomplete"


COMPLETED = Ending(status="completed")
CANCELLED = Ending(status="cancelled")
IN_PROGRESS = Ending(status="in_progress")
QUEUED = Ending(status="queued")


def ending_of_answer(done_reason: str | None) -> Ending:
    """Return the ending of a turn whose last answer stopped for this reason."""
    cut_by = _CUT.get(done_reason or "")
    return Ending(status="incomplete", cut_by=cut_by) if cut_by else COMPLETED


def ending_of_error(code: str | None, message: str) -> Ending:
    """Return the ending of a turn that broke off.

    Args:
        code: Our code; None where it is not known any more.
        message: Its words.
    """
    if code == _REFUSED:
        return Ending(status="incomplete", cut_by="content_filter")
    error = {"code": _ERROR_CODES.get(code or "", "server_error"), "message": message or LOST}
    return Ending(status="failed", error=error if code is None else {**error, "mochi_code": code})
