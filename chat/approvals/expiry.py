"""Decides how long a question can be answered, and how long an approval can be used.

Processes share only the wall clock, which may be set. A question is open from ``created_at`` to
``expires_at``, and at no other time. So setting the clock can close a question early. It can keep
one open for longer only if no turn waits, since a waiting turn uses its own monotonic clock. An
expired question never means yes.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from chat.approvals.confirmation import ApprovalDecision, Confirmation, read_moment, written


def utc_clock() -> datetime:
    """Return the time, with time zone."""
    return datetime.now(UTC)


class Expiry:
    """Applies the time limit of questions and approvals.

    Args:
        timeout_seconds: How long a question is open, and how long an approval may wait for its
            turn to be resumed.
        now: Returns the time, with time zone.

    Attributes:
        now: Returns the time.
    """

    def __init__(self, timeout_seconds: float, now: Callable[[], datetime] = utc_clock) -> None:
        self._timeout = timedelta(seconds=timeout_seconds)
        self.now = now

    def period(self) -> tuple[str, str]:
        """Return ``created_at`` and ``expires_at`` for a new question."""
        now = self.now()
        return written(now), written(now + self._timeout)

    def stamp(self) -> str:
        """Return the time in the format of records."""
        return written(self.now())

    def is_open(self, question: Confirmation, now: datetime | None = None) -> bool:
        """Return whether the question can be answered now."""
        begins, ends = read_moment(question.created_at), read_moment(question.expires_at)
        return begins <= (now or self.now()) < ends

    def is_usable(self, approval: ApprovalDecision) -> bool:
        """Return whether the approval was given recently enough for a turn that resumes."""
        return timedelta(0) <= self.now() - read_moment(approval.decided_at) <= self._timeout

    def may_be_swept(self, asked_at: str) -> bool:
        """Return whether a question of that time may be gone; also if the time can't be read."""
        try:
            return not timedelta(0) <= self.now() - read_moment(asked_at) < self._timeout
        except ValueError:
            return True

    def newest_to_sweep(self, age_seconds: float) -> float:
        """Return the POSIX time before which records are that old and can't be used any more."""
        return self.now().timestamp() - max(age_seconds, self._timeout.total_seconds())
