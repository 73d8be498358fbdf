"""Finds the sessions whose summaries are due."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from sessions_app.session import has_known_format
from sessions_app.store.repository import SessionRepository

CLOCK_TOLERANCE_SECONDS = 10.0


class DueSummaries:
    """Finds due summaries in the sessions' files.

    Args:
        repository: The sessions.
        now: The clock.
    """

    def __init__(self, repository: SessionRepository, *, now: Callable[[], str]) -> None:
        self._repository = repository
        self._now = now

    def older_than(self, seconds: float) -> Mapping[str, str]:
        """Return the sessions whose summaries are due for so long, and since when. Blocks."""
        return {
            metadata.session_id: metadata.summary_due
            for metadata in self._repository.list().sessions
            if metadata.summary_due is not None
            and has_known_format(metadata)
            and self.age_of(metadata.summary_due) >= seconds
        }

    def age_of(self, timestamp: str) -> float:
        """Return the seconds since then; a time that makes no sense is long ago."""
        try:
            then = datetime.fromisoformat(timestamp)
        except ValueError:
            return math.inf
        if then.tzinfo is None:
            then = then.replace(tzinfo=UTC)
        age = (datetime.fromisoformat(self._now()) - then).total_seconds()
        # A clock that was set back must not keep a summary for ever.
        return age if age > -CLOCK_TOLERANCE_SECONDS else math.inf
