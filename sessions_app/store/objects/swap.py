"""Changes a session's object by compare-and-swap: no lock, no lost or repeated change.

A write whose answer got lost is found by its revision, in the object or among the earlier ones of
its envelope.
"""

import logging
import os
import random
import time
from collections.abc import Callable
from typing import Generic

import msgspec

from sessions_app.errors import SessionBusy, SessionExists, SessionNotFound, StorageUnavailable
from sessions_app.session import Session
from sessions_app.store.objects.document_cache import Document
from sessions_app.store.objects.envelope import Envelope, buried_at, is_tombstone
from sessions_app.store.objects.session_objects import SessionObjects
from sessions_app.store.objects.store import ObjectChanged, ObjectExists, OutcomeUnclear, Tag
from sessions_app.store.repository import Claim, Result

logger = logging.getLogger(__name__)

MOST_TRIES = 40
LONGEST_PAUSE_SECONDS = 0.1
RETRY_SECONDS = 0.5
DELETE_SECONDS = 300.0
"""A delete takes no longer, by clocks that differ a little: it died."""
MOST_UNCLEAR = 2
"""So many writes get no answer before that is the answer, where nothing is retried."""
_chance = random.Random()  # noqa: S311 - spreads writers
os.register_at_fork(after_in_child=_chance.seed)


class Wanted(msgspec.Struct, Generic[Result], frozen=True, kw_only=True, eq=False):
    """The outcome of a step: a document as it shall be.

    Attributes:
        session: The session; the very one of the document if it stays as it is.
        claim: The claim that goes with it; likewise.
        result: What the step hands on.
    """

    session: Session
    claim: Claim | None
    result: Result


Step = Callable[[Document], Wanted[Result]]
"""Returns what an object becomes, or raises what refuses it; may be called again."""


class Swap(Generic[Result]):
    """One change of one object, tried until it is made, or certainly can't be.

    Args:
        objects: The objects.
        session_id: The session.
        retry_seconds: For how long a store that says nothing is asked again.
        recovers: Whether the change may use the room that is kept for recoveries.
        announce: Called before a write with what is about to be written.
        pause: Waits between two tries.
        now: The time, as the tombstones of other machines have it, more or less.

    Attributes:
        announced: Whether a write was about to be made.
    """

    def __init__(
        self,
        objects: SessionObjects,
        session_id: str,
        *,
        retry_seconds: float = 0.0,
        recovers: bool = False,
        announce: Callable[[Wanted[Result]], None] = lambda _wanted: None,
        pause: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._objects = objects
        self._session_id = session_id
        self._deadline = time.monotonic() + retry_seconds
        self._recovers = recovers
        self._announce = announce
        self._pause = pause
        self._now = now
        self.announced = False
        self._failures: list[StorageUnavailable] = []
        self._unsure: dict[str, Wanted[Result]] = {}
        """The documents that may have been written, by their revisions."""

    def change(self, step: Step[Result]) -> Wanted[Result]:
        """Change the object that is there; return what was kept.

        The document as this process knows it is tried first, without reading. What a step refuses
        of one that may be out of date is asked again of what the object holds.

        Raises:
            SessionBusy: Others were faster each time.
            SessionNotFound, SessionCorrupt: By the object.
            StorageUnavailable: The store says nothing; the change may have been made.
        """
        document = self._objects.known.get(self._session_id)
        is_fresh = False
        for tries in range(MOST_TRIES):
            if document is None or tries > 0:
                document, is_fresh = self._read(), True
                if (made := self._made_before(document)) is not None:
                    return made
                self._require_hope()
            try:
                wanted = step(document)
            except Exception:
                if is_fresh:
                    raise
                continue  # it may have been said of a session of long ago
            if _is_same(document, wanted):
                if is_fresh:
                    return wanted
                continue
            if self._is_written(document, wanted):
                return wanted
            self._pause(_chance.random() * min(LONGEST_PAUSE_SECONDS, 0.005 * (tries + 1)))
        raise SessionBusy(self._session_id)

    def make(self, wanted: Wanted[Result]) -> Wanted[Result]:
        """Make the object.

        Raises:
            SessionExists: Another one has the id.
            SessionBusy: It is being deleted.
            StorageUnavailable: The store says nothing; the object may have been made.
        """
        envelope = Envelope().followed_by(wanted.claim)
        left: Tag | None = None
        self.announced = True
        self._announce(wanted)
        while True:
            try:
                self._objects.make(wanted.session, envelope, over=left)
            except (OutcomeUnclear, ObjectExists, ObjectChanged) as error:
                self._unsure[envelope.revision] = wanted
                if isinstance(error, OutcomeUnclear):
                    self._bear(error)
            else:
                return wanted
            try:
                if self._is_made():
                    return wanted
            except SessionNotFound:
                left = self._left_tombstone()
                self._require_hope()
                continue
            raise SessionExists(self._session_id)

    def _left_tombstone(self) -> Tag | None:
        """Return the tag of what a delete left that died; None where there is nothing.

        One that goes on removes its tombstone, and would remove what was made in its place.

        Raises:
            SessionBusy: It may go on.
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

    def _is_written(self, document: Document, wanted: Wanted[Result]) -> bool:
        """Write what is wanted; False if it must be looked whether that was done."""
        envelope = document.envelope.followed_by(wanted.claim)
        self.announced = True
        self._announce(wanted)
        # A conflict, too: who stands between us and the store may have repeated what was written.
        self._unsure[envelope.revision] = wanted
        try:
            self._objects.replace(document, wanted.session, envelope, recovers=self._recovers)
        except ObjectChanged:
            return False
        except StorageUnavailable as error:
            self._bear(error)
            return False
        return True

    def _is_made(self) -> bool:
        return self._made_before(self._read()) is not None

    def _made_before(self, document: Document) -> Wanted[Result] | None:
        """Return what an earlier try has made after all."""
        for revision, wanted in self._unsure.items():
            if document.envelope.is_of(revision):
                return wanted
        return None

    def _read(self) -> Document:
        """Return what the object holds, also a while later."""
        while True:
            try:
                return self._objects.read(self._session_id)
            except StorageUnavailable:
                if not self._is_patient():
                    raise
                self._pause(RETRY_SECONDS)

    def _bear(self, error: StorageUnavailable) -> None:
        """Let a write be tried again once the object was read; raise what certainly failed."""
        if not (isinstance(error, OutcomeUnclear) or self._is_patient()):
            raise error
        self._failures.append(error)
        if self._is_patient():
            self._pause(RETRY_SECONDS)
        logger.warning(
            "a write failed; the session is read to see what became of it",
            extra={"session_id": self._session_id, "reason": error.message},
        )

    def _require_hope(self) -> None:
        """Raise why a write failed that was tried for long enough."""
        if len(self._failures) >= MOST_UNCLEAR and not self._is_patient():
            raise self._failures[-1]

    def _is_patient(self) -> bool:
        return time.monotonic() < self._deadline


def _is_same(document: Document, wanted: Wanted[Result]) -> bool:
    return wanted.session is document.session and wanted.claim is document.envelope.claim


def twice(call: Callable[[], object]) -> None:
    """Call what may be repeated once more, if it fails."""
    try:
        call()
    except StorageUnavailable:
        call()
