"""Determines how a response ended: status, reason for being incomplete, error. Pure."""

from typing import Any, Literal

import msgspec

from chat.stream.events import Cancelled, Failed, MessageComplete
from dialects_app.shared.errors import status_of
from sessions_app.errors import MochiError

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

LOST = "The response broke off."
"""The error of a response of whose end no more is known."""

_REFUSED = "CONTENT_REFUSED"
_OVERFLOW = "CONTEXT_OVERFLOW"
_CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ERROR_CODES = {
    "BUDGET_EXCEEDED": "insufficient_quota",
    _OVERFLOW: "context_length_exceeded",
    "OLLAMA_UNREACHABLE": "invalid_prompt",
}
"""OpenAI's names of errors by which clients know what to do.

Of others, ``server_error`` is repeated, and ``invalid_prompt`` is not: nothing that is to be
repeated within seconds is left to do while nobody listens at Ollama's address.
"""


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
        return _ending_of_error(event)
    cut_by = None if event is None else _CUT.get(event.done_reason or "")
    return Ending(status="incomplete", cut_by=cut_by) if cut_by else COMPLETED


def is_repeated_by_codex(error: MochiError) -> bool:
    """Return whether Codex would repeat a request, or misread its failure, by the status alone.

    It repeats each 5xx thirty times, whatever ``x-should-retry`` says, and knows an overflow by
    its code in a stream. Other clients go by the status (docs/decisions/0170).
    """
    return error.code == _OVERFLOW or status_of(error.code, details=error.details) >= 500


def _ending_of_error(failure: Failed) -> Ending:
    """Return the ending of an interrupted turn; the code is empty if it is unknown."""
    if failure.code == _REFUSED:
        return Ending(status="incomplete", cut_by="content_filter")
    error = {
        "code": _ERROR_CODES.get(failure.code) or _usual_code(failure),
        "message": failure.message or LOST,
    }
    return Ending(
        status="failed", error={**error, "mochi_code": failure.code} if failure.code else error
    )


def _usual_code(failure: Failed) -> str:
    is_retryable = failure.details.get("retryable", True)
    if failure.code == "RATE_LIMITED":
        return "rate_limit_exceeded" if is_retryable else "insufficient_quota"
    return "server_error" if is_retryable else "invalid_prompt"
