"""Records failed summaries, where every process can read them.

One small file for each session. It is written before a model is asked, so that a process that dies
over a summary has used up one of its attempts.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.records import Records, read_or_empty

ATTEMPTS = 3
PAUSES = (20.0, 120.0)
"""Seconds until the second and the third attempt."""

DIED = "WORKER_DIED"
SUFFIX = ".json"


class SummaryFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A summary that was tried and could not be made.

    Attributes:
        session_id: The session.
        due: Since when it is due; a later answer starts anew.
        attempts: How often it was tried.
        code: What went wrong last.
        message: A sentence on that, without anything that was said in the conversation.
        at: When it was tried last, in seconds since 1970.
    """

    session_id: str
    due: str
    attempts: int
    code: str = DIED
    message: str = "It is being written, or its process died meanwhile."
    at: float = 0.0

    @property
    def given_up(self) -> bool:
        """Return whether it is not tried again before the session's next answer."""
        return self.attempts >= ATTEMPTS


class SummaryFailures:
    """Keeps the failures of one data directory. All calls block."""

    def __init__(self, records: Records, *, clock: Callable[[], float] = time.time) -> None:
        self._records = records
        self._clock = clock

    def may_try(self, session_id: str, due: str, *, alone: bool = False) -> bool:
        """Return whether the summary that is due since then may be tried now.

        Args:
            session_id: The session.
            due: Since when it is due.
            alone: Whether nobody else tries it just now: what did not end has died then.
        """
        found = self._find(session_id)
        if found is None or found.due != due:
            return True
        if found.given_up:
            return False
        if alone and found.code == DIED:
            return True
        return self._clock() - found.at >= PAUSES[min(found.attempts, len(PAUSES)) - 1]

    def attempts(self, session_id: str, due: str) -> int:
        """Return how often the summary that is due since then was tried."""
        found = self._find(session_id)
        return found.attempts if found is not None and found.due == due else 0

    def begin(self, session_id: str, due: str) -> None:
        """Record that the summary is tried now."""
        found = self._find(session_id)
        earlier = found.attempts if found is not None and found.due == due else 0
        self._keep(
            SummaryFailure(session_id=session_id, due=due, attempts=earlier + 1, at=self._clock())
        )

    def failed(self, session_id: str, *, code: str, message: str, again: bool) -> None:
        """Record why the summary failed, and whether another attempt makes sense."""
        found = self._find(session_id)
        if found is not None:
            attempts = found.attempts if again else ATTEMPTS
            self._keep(
                msgspec.structs.replace(found, code=code, message=message[:500], attempts=attempts)
            )

    def end_attempts(self) -> None:
        """Let what is recorded as being tried be tried again at once: no process does it now."""
        for failure in self._all():
            if failure.code == DIED and not failure.given_up:
                self._keep(msgspec.structs.replace(failure, at=0.0))

    def withdraw(self, session_id: str) -> None:
        """Take the attempt back: something more important came."""
        found = self._find(session_id)
        if found is None:
            return
        if found.attempts <= 1:
            self.forget(session_id)
        else:
            self._keep(msgspec.structs.replace(found, attempts=found.attempts - 1))

    def forget(self, session_id: str) -> None:
        """Forget the session: its summary was written, or it is gone."""
        with contextlib.suppress(UnreadableFileError):
            self._records.delete(f"{session_id}{SUFFIX}")

    def list(self) -> "Sequence[SummaryFailure]":
        """Return the failures, the latest first, without those that are being retried now."""
        return sorted(
            (failure for failure in self._all() if failure.code != DIED or failure.attempts > 1),
            key=lambda failure: -failure.at,
        )

    def _all(self) -> "Iterator[SummaryFailure]":
        """Yield the records that can be read."""
        for data in self._records.read_all(lambda name: name.endswith(SUFFIX)).values():
            if isinstance(data, bytes):
                with contextlib.suppress(msgspec.MsgspecError):
                    yield decode_as(data, SummaryFailure)

    def _keep(self, failure: SummaryFailure) -> None:
        self._records.put(f"{failure.session_id}{SUFFIX}", msgspec.json.encode(failure))

    def _find(self, session_id: str) -> SummaryFailure | None:
        data = read_or_empty(self._records, f"{session_id}{SUFFIX}")
        try:
            return decode_as(data or b"", SummaryFailure)
        except msgspec.MsgspecError:
            return None
