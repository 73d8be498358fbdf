"""Decides until when a question can be answered, and for how long an approval can be used.

Processes share only the wall clock, and that may be set. A question is open from ``created_at`` to
``expires_at`` and closed at any other time, before ``created_at`` too. So setting the clock can
close a question early; it can keep one open for longer only when no turn waits, for a waiting turn
measures by its own monotonic clock. A clock never answers a question, except with no.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from chat.approvals.confirmation import ApprovalDecision, Confirmation, read_moment, written


def utc_clock() -> datetime:
    """Return the time, with its time zone."""
    return datetime.now(UTC)


class Expiry:
    """Applies the time limit of questions and approvals.

    Args:
        timeout_seconds: How long a question is open, and how long an approval may wait for its
            turn to be resumed.
        now: The time, with a time zone.

    Attributes:
        now: As given.
    """

    def __init__(self, timeout_seconds: float, now: Callable[[], datetime] = utc_clock) -> None:
        self._timeout = timedelta(seconds=timeout_seconds)
        self.now = now

    def period(self) -> tuple[str, str]:
        """Return ``created_at`` and ``expires_at`` of a question that is asked now."""
        now = self.now()
        return written(now), written(now + self._timeout)

    def stamp(self) -> str:
        """Return the time as records hold it."""
        return written(self.now())

    def is_open(self, question: Confirmation) -> bool:
        """Return whether the question can be answered."""
        begins, ends = self.period_of(question)
        return begins <= self.now() < ends

    def period_of(self, question: Confirmation) -> tuple[datetime, datetime]:
        """Return from when and until when the question is open."""
        return read_moment(question.created_at), read_moment(question.expires_at)

    def is_usable(self, approval: ApprovalDecision) -> bool:
        """Return whether the approval was given recently enough for a turn that resumes."""
        return timedelta(0) <= self.now() - read_moment(approval.decided_at) <= self._timeout

    def newest_to_sweep(self, age_seconds: float) -> float:
        """Return the POSIX time before which records are of that age, and none can be used."""
        return self.now().timestamp() - max(age_seconds, self._timeout.total_seconds())
