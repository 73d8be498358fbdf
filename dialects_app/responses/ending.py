"""Determines how a response ended: status, reason for being incomplete, error. Pure."""

from typing import Any, Literal

import msgspec

from chat.stream.events import Cancelled, Failed, MessageComplete

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


def ending_of(event: MessageComplete | Cancelled | Failed | None) -> Ending:
    """Return the ending for the event that ended a turn; None if it waits for approvals."""
    if isinstance(event, Cancelled):
        return CANCELLED
    if isinstance(event, Failed):
        return _ending_of_error(event.code, event.message)
    cut_by = None if event is None else _CUT.get(event.done_reason or "")
    return Ending(status="incomplete", cut_by=cut_by) if cut_by else COMPLETED


def _ending_of_error(code: str, message: str) -> Ending:
    """Return the ending of an interrupted turn; the code is empty if it is unknown."""
    if code == _REFUSED:
        return Ending(status="incomplete", cut_by="content_filter")
    error = {"code": _ERROR_CODES.get(code, "server_error"), "message": message or LOST}
    return Ending(status="failed", error={**error, "mochi_code": code} if code else error)
