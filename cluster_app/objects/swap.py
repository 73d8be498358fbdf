"""Changes a session's object by compare-and-swap, without locks, lost or repeated changes.

A write whose response got lost is recognized by its revision, which is in the envelope of the
object as the current or an earlier one.
"""

import logging
import os
import random
import time
from collections.abc import Callable
from typing import Generic

import msgspec

from cluster_app.objects.session_objects import Document, SessionObjects
from cluster_app.objects.store import ObjectChanged, ObjectExists, OutcomeUnclear, Tag
from sessions_app.errors import SessionBusy, SessionExists, SessionNotFound, StorageUnavailable
from sessions_app.session import Session
from sessions_app.store.envelope import Envelope, buried_at, is_tombstone
from sessions_app.store.repository import Claim, Result

logger = logging.getLogger(__name__)

MOST_TRIES = 40
LONGEST_PAUSE_SECONDS = 0.1
RETRY_SECONDS = 0.5
DELETE_SECONDS = 300.0
"""The age of a tombstone, with some clock skew, after which its delete counts as dead."""
MOST_UNCLEAR = 2
"""The number of writes without a response after which a change without retries fails."""
_chance = random.Random()  # noqa: S311 - spreads writers
os.register_at_fork(after_in_child=_chance.seed)


class StepResult(msgspec.Struct, Generic[Result], frozen=True, kw_only=True, eq=False):
    """The outcome of a step: the content to write.

    Attributes:
        session: The session; the same object as in the document if unchanged.
        claim: The claim; the same object as in the document if unchanged.
        result: The step's own result.
    """

    session: Session
    claim: Claim | None
    result: Result


Step = Callable[[Document], StepResult[Result]]
"""Returns the content to write, or raises to refuse the change. It may be called several times."""


class Swap(Generic[Result]):
    """One change of one object, retried on conflicts.

    Args:
        objects: The objects of sessions.
        session_id: The session.
        retry_seconds: How long to retry if the store does not respond.
        recovers: Whether the change may use the space reserved for recoveries.
        pause: Sleeps between two tries.
        now: The time in seconds since 1970, compared with the tombstones of other machines.
    """

    def __init__(
        self,
        objects: SessionObjects,
        session_id: str,
        *,
        retry_seconds: float = 0.0,
        recovers: bool = False,
        pause: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._objects = objects
        self._session_id = session_id
        self._deadline = time.monotonic() + retry_seconds
        self._recovers = recovers
        self._pause = pause
        self._now = now
        self._failures: list[StorageUnavailable] = []
        self._maybe_written: dict[str, StepResult[Result]] = {}
        """The documents that may have been written, by their revisions."""

    def change(self, step: Step[Result]) -> StepResult[Result]:
        """Change an existing object; return the stored content.

        The cached document is tried first. If the step refuses a document that may be stale, it is
        called again with the object's current content.

        Raises:
            SessionBusy: Other writers were faster each time.
            SessionNotFound, SessionCorrupt: The object is missing or invalid.
            StorageUnavailable: The store does not respond; the change may have been made.
        """
        document = self._objects.known.get(self._session_id)
        is_fresh = False
        for tries in range(MOST_TRIES):
            if document is None or tries > 0:
                document, is_fresh = self._read(), True
                if (made := self._applied_earlier(document)) is not None:
                    return made
                self._raise_if_exhausted()
            try:
                wanted = step(document)
            except Exception:
                if is_fresh:
                    raise
                continue  # the cached document may be stale
            if _is_same(document, wanted):
                if is_fresh:
                    return wanted
                continue
            if self._is_written(document, wanted):
                return wanted
            self._pause(_chance.random() * min(LONGEST_PAUSE_SECONDS, 0.005 * (tries + 1)))
        # A write without a response may have been made: nobody else needs to have been faster.
        raise self._failures[-1] if self._failures else SessionBusy(self._session_id)

    def make(self, wanted: StepResult[Result]) -> StepResult[Result]:
        """Create the object.

        Raises:
            SessionExists: Another session has the id.
            SessionBusy: A session with this id is being deleted.
            StorageUnavailable: The store does not respond; the object may have been created.
        """
        envelope = Envelope().followed_by(wanted.claim)
        left: Tag | None = None
        while True:
            try:
                self._objects.make(wanted.session, envelope, over=left)
            except (OutcomeUnclear, ObjectExists, ObjectChanged) as error:
                self._maybe_written[envelope.revision] = wanted
                if isinstance(error, OutcomeUnclear):
                    self._record_failure(error)
            else:
                return wanted
            try:
                if self._is_applied():
                    return wanted
            except SessionNotFound:
                left = self._left_tombstone()
                self._raise_if_exhausted()
                continue
            raise SessionExists(self._session_id)

    def _left_tombstone(self) -> Tag | None:
        """Return the tag of a tombstone left by a dead delete; None if there is no object.

        A delete still running would remove a session created in place of its tombstone.

        Raises:
            SessionBusy: The delete may still be running.
        """
        try:
            found = self._objects.raw(self._session_id)
        except SessionNotFound:
            return None
        if not is_tombstone(found.data):
            return None
        if self._now() - buried_at(found.data) < DELETE_SECONDS:
            raise SessionBusy(self._session_id)
        return found.tag

    def _is_written(self, document: Document, wanted: StepResult[Result]) -> bool:
        """Write the content; return False if the object must be read to know the outcome."""
        envelope = document.envelope.followed_by(wanted.claim)
        # Also on a conflict: a proxy may have repeated a write that was applied.
        self._maybe_written[envelope.revision] = wanted
        try:
            self._objects.replace(document, wanted.session, envelope, recovers=self._recovers)
        except ObjectChanged:
            return False
        except StorageUnavailable as error:
            self._record_failure(error)
            return False
        return True

    def _is_applied(self) -> bool:
        return self._applied_earlier(self._read()) is not None

    def _applied_earlier(self, document: Document) -> StepResult[Result] | None:
        """Return the content of an earlier try that was applied after all."""
        for revision, wanted in self._maybe_written.items():
            if document.envelope.is_of(revision):
                return wanted
        return None

    def _read(self) -> Document:
        """Read the object, with retries until the deadline."""
        while True:
            try:
                return self._objects.read(self._session_id)
            except StorageUnavailable:
                if not self._may_retry():
                    raise
                self._pause(RETRY_SECONDS)

    def _record_failure(self, error: StorageUnavailable) -> None:
        """Record a failed write to be retried after a read; re-raise errors not to be retried."""
        if not (isinstance(error, OutcomeUnclear) or self._may_retry()):
            raise error
        self._failures.append(error)
        if self._may_retry():
            self._pause(RETRY_SECONDS)
        logger.warning(
            "a write failed; the session is read to see what became of it",
            extra={"session_id": self._session_id, "reason": error.message},
        )

    def _raise_if_exhausted(self) -> None:
        """Raise the last failure if there is no time or try left."""
        if len(self._failures) >= MOST_UNCLEAR and not self._may_retry():
            raise self._failures[-1]

    def _may_retry(self) -> bool:
        return time.monotonic() < self._deadline


def _is_same(document: Document, wanted: StepResult[Result]) -> bool:
    return wanted.session is document.session and wanted.claim is document.envelope.claim


def twice(call: Callable[[], object]) -> None:
    """Call an idempotent function, and once more if it fails."""
    try:
        call()
    except StorageUnavailable:
        call()
