"""Stores sessions as objects that are changed by compare-and-swap, without locks.

::

    {store}/{session_id}.json       the session, its revision, and the claim of its turn
    {deleted}/{session_id}          the time when the session was deleted

``Owners`` tells whether a claim's process is alive, and ``SessionIndex`` which sessions may be
claimed. The object itself is authoritative.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from cluster_app.objects.claims import ObjectClaims
from cluster_app.objects.retry_budget import RetryBudget
from cluster_app.objects.session_index import SessionIndex
from cluster_app.objects.session_objects import Document, SessionObjects
from cluster_app.objects.store import (
    ObjectChanged,
    ObjectMissing,
    ObjectStore,
    OutcomeUnclear,
)
from cluster_app.objects.swap import MOST_TRIES, StepResult, Swap, twice
from sessions_app.errors import SessionBusy, SessionNotFound
from sessions_app.ids_and_clock import utc_now
from sessions_app.session import Session, SessionMetadata, counted, require_known_format
from sessions_app.store.envelope import is_tombstone
from sessions_app.store.listing_interval import ListingInterval
from sessions_app.store.observer import UNOBSERVED, SessionObserver
from sessions_app.store.owners import Owners
from sessions_app.store.repository import (
    Change,
    Check,
    Claim,
    Hold,
    Listing,
    Opening,
    Recover,
    Result,
    require_session_id,
)
from sessions_app.store.tombstones import KEPT_SECONDS


class ObjectSessionRepository:
    """Stores sessions in an object store, for any number of processes on any machines.

    Args:
        store: The store of the sessions' objects only.
        deleted: The store of the times of deletion; None for ephemeral sessions.
        owners: Tells which processes are alive.
        index: The session index, for listings and claims.
        is_over: Returns whether a turn (session id, turn id) has ended although its claim remains,
            because its living process could not save the result.
        retry_seconds: How long a running turn retries to save if the store does not respond.
        observer: Handles changes.
    """

    keeps_begun = True

    def __init__(
        self,
        store: ObjectStore,
        *,
        deleted: ObjectStore | None,
        owners: Owners,
        index: SessionIndex,
        is_over: Callable[[str, str], bool] = lambda _session_id, _turn_id: False,
        retry_seconds: float = 30.0,
        observer: SessionObserver = UNOBSERVED,
    ) -> None:
        self.owners = owners
        self._index = index
        self._retries = RetryBudget(retry_seconds)
        self._objects = SessionObjects(store, index)
        self._deleted = deleted
        self._observer = observer
        self._sweeps = ListingInterval()
        self._claims = ObjectClaims(self._objects, owners=owners, index=index, is_over=is_over)

    # Reading

    def load(self, session_id: str) -> Session:
        """Return the session; it is fetched only if it changed since it was cached."""
        require_session_id(session_id)
        return self._objects.read(session_id).session

    def recall(self, session_id: str) -> Session | None:
        """Return the session from the cache, if it is there."""
        document = self._objects.known.get(session_id)
        return None if document is None else document.session

    def list(self, *, anew: bool = False) -> Listing:
        """Return the listing of the index."""
        if anew:
            self._index.compare()
        return self._index.listing()

    def deleted_at(self, session_id: str) -> str | None:
        """Return when the session was recently deleted; None if that is not known."""
        require_session_id(session_id)
        if self._deleted is None:
            return None
        try:
            deleted_at = self._deleted.get(session_id).data.decode("ascii", "replace")
        except ObjectMissing:
            return None
        return deleted_at if self._objects.is_gone(session_id) else None

    def can_hold(self, session: Session) -> bool:
        """Return whether a recovery could save the session as it is now."""
        return self._objects.fits(session)

    # Claims

    def claim(
        self,
        session_id: str,
        turn_id: str,
        *,
        owner: str,
        change: Opening[Result],
        recover: Recover | None = None,
        new: Session | None = None,
    ) -> tuple[Session, Result]:
        """Claim and change the session in one write; return it and the result of ``change``.

        Raises:
            SessionBusy: A turn is running.
            SessionExists: The id of a new session is taken.
            SessionNotFound: There is no session with this id.
            SessionCorrupt: The session's object can't be read.
            StorageUnavailable: The store does not respond; the claim may have been made.
        """
        require_session_id(session_id if new is None else new.session_id)
        claim = Claim(session_id=session_id, turn_id=turn_id, owner=owner, started_at=utc_now())

        def opened(session: Session) -> StepResult[Result]:
            require_known_format(session)
            changed, result = change(session)
            kept = session if changed is session else counted(changed)
            return StepResult(session=kept, claim=claim, result=result)

        def step(document: Document) -> StepResult[Result]:
            self._require_idle(document, recover)
            return opened(document.session)

        swap: Swap[Result] = Swap(self._objects, session_id)
        if new is None:
            made = self._with_recovery(session_id, recover, lambda: swap.change(step))
        else:
            made = swap.make(opened(new))
        if new is not None:
            self._observer.created(session_id)
        self._observer.turn_started(session_id, turn_id)
        return made.session, made.result

    def release(self, session_id: str, hold: Hold) -> None:
        """Release that claim; do nothing if it is not the current one."""
        require_session_id(session_id)

        def step(document: Document) -> StepResult[None]:
            claim = document.envelope.claim
            kept = None if claim is not None and claim.hold == hold else claim
            return StepResult(session=document.session, claim=kept, result=None)

        with suppress(SessionNotFound):  # then the claim does not exist either
            self._swap(session_id, step, turn_id=hold.turn_id)
        self._observer.turn_ended(session_id, hold.turn_id)

    def sync_claims(self) -> None:
        """Do nothing: acknowledged writes are durable."""

    def claim_of(self, session_id: str) -> Claim | None:
        """Return the claim on the session, dead or alive, or None."""
        require_session_id(session_id)
        document = self._objects.peek(session_id)
        return None if document is None else self._claims.evaluated(document.envelope.claim)

    def look(self, session_id: str) -> tuple[SessionMetadata, Claim | None]:
        """Return the session's metadata and claim."""
        session, claim = self.load_claimed(session_id)
        return session.metadata, claim

    def load_claimed(self, session_id: str) -> tuple[Session, Claim | None]:
        """Return the session and the claim on it, dead or alive, with one read."""
        require_session_id(session_id)
        document = self._objects.read(session_id)
        return document.session, self._claims.evaluated(document.envelope.claim)

    def claims(self) -> Sequence[Claim]:
        """Return the claims; those of dead processes are read from the objects.

        Called every second, so claims of living processes come from the index alone.
        """
        return self._claims.all()

    # Writing

    def create(self, session: Session) -> None:
        """Store a new session.

        Raises:
            SessionExists: The id is taken.
        """
        require_session_id(session.session_id)
        require_known_format(session)
        swap: Swap[None] = Swap(self._objects, session.session_id)
        swap.make(StepResult(session=counted(session), claim=None, result=None))
        self._observer.created(session.session_id)

    def update(
        self,
        session_id: str,
        change: Change,
        *,
        hold: Hold | None = None,
        release: bool = False,
        begun: Sequence[str] = (),
        owner: str | None = None,
    ) -> Session:
        """Replace the session by ``change(session)`` in one write, and return the new one.

        Raises:
            SessionBusy: ``hold`` is given and is not the session's claim.
            SessionNotFound: There is no session with this id.
            SessionCorrupt: The object can't be read; it is left untouched.
            StorageUnavailable: The store does not respond; the change may have been made.
        """
        require_session_id(session_id)

        def step(document: Document) -> StepResult[None]:
            claim = document.envelope.claim
            if hold is not None and (claim is None or claim.hold != hold):
                raise SessionBusy(session_id, claim.turn_id if claim else None)
            if claim is not None and begun:
                claim = msgspec.structs.replace(claim, begun=(*claim.begun, *begun))
            if claim is not None and owner is not None:
                claim = msgspec.structs.replace(claim, owner=owner)
            if release:
                claim = None
            return StepResult(session=_changed(document, change), claim=claim, result=None)

        made = self._swap(session_id, step, turn_id=hold and hold.turn_id)
        if release:
            self._observer.turn_ended(session_id, hold.turn_id if hold else "")
        else:
            self._observer.changed(session_id)
        return made.session

    def update_idle(
        self, session_id: str, change: Change, *, recover: Recover | None = None
    ) -> Session:
        """Update the session while no turn runs, after recovering a dead turn.

        Without ``recover``, a dead turn's claim stays.

        Raises:
            SessionBusy: A turn is running.
        """
        require_session_id(session_id)

        def step(document: Document) -> StepResult[None]:
            claim = self._require_idle(document, recover)
            return StepResult(session=_changed(document, change), claim=claim, result=None)

        made = self._with_recovery(session_id, recover, lambda: self._swap(session_id, step))
        self._observer.changed(session_id)
        return made.session

    def delete(self, session_id: str, *, check: Check | None = None) -> None:
        """Delete the session, valid or not, by replacing it with a tombstone and removing that.

        Raises:
            SessionBusy: A turn is running, or other writers were faster each time.
            SessionNotFound: There is no session with this id.
        """
        require_session_id(session_id)
        deleted_at = utc_now()
        is_ours = False
        for _ in range(MOST_TRIES):
            found = self._objects.raw(session_id)
            if is_tombstone(found.data):
                self._finish_delete(session_id, deleted_at)
                if is_ours:
                    self._observer.deleted(session_id)
                    return
                raise SessionNotFound(session_id)
            claim = self._claims.evaluated(self._objects.read_envelope(session_id, found).claim)
            if claim is not None and claim.alive:
                raise SessionBusy(session_id, claim.turn_id)
            if check is not None:
                check(self._objects.read(session_id).session)
            try:
                self._objects.replace_by_tombstone(session_id, found.tag, deleted_at=deleted_at)
            except (ObjectChanged, OutcomeUnclear):
                is_ours = True  # a tombstone found by the next read counts as ours
                continue
            self._finish_delete(session_id, deleted_at)
            self._observer.deleted(session_id)
            return
        raise SessionBusy(session_id)

    def sweep(self) -> int:
        """Remove old records of deletions."""
        if self._deleted is None or not self._sweeps.is_time():
            return 0
        swept = 0
        oldest = time.time() - KEPT_SECONDS
        for page in self._deleted.list():
            for item in page:
                if item.modified_at < oldest:
                    self._deleted.delete(item.key)
                    swept += 1
        return swept

    def _finish_delete(self, session_id: str, deleted_at: str) -> None:
        """Record the deletion and remove the session's tombstone."""
        if (deleted := self._deleted) is not None:
            twice(lambda: deleted.put(session_id, deleted_at.encode()))
        twice(lambda: self._objects.remove(session_id))

    def _swap(
        self,
        session_id: str,
        step: Callable[[Document], StepResult[Result]],
        *,
        turn_id: str | None = None,
    ) -> StepResult[Result]:
        with self._retries.spent_by(turn_id) as seconds:
            return Swap[Result](self._objects, session_id, retry_seconds=seconds).change(step)

    def _with_recovery(
        self, session_id: str, recover: Recover | None, act: Callable[[], StepResult[Result]]
    ) -> StepResult[Result]:
        """Call ``act``, after recovering a dead turn if there is one."""
        while True:
            try:
                return act()
            except _TurnDied as died:
                if recover is None:
                    raise
                self._recover(session_id, died.claim, recover)

    def _recover(self, session_id: str, dead: Claim, recover: Recover) -> None:
        """Save a dead turn's result and remove its claim, in a write with the recovery's limit."""

        def step(document: Document) -> StepResult[None]:
            claim = document.envelope.claim
            if claim is None or claim.hold != dead.hold:
                return StepResult(session=document.session, claim=claim, result=None)
            require_known_format(document.session)
            dead_now = msgspec.structs.replace(claim, alive=False)
            session = _changed(document, lambda found: recover(found, dead_now))
            return StepResult(session=session, claim=None, result=None)

        Swap[None](self._objects, session_id, recovers=True).change(step)
        self._observer.turn_ended(session_id, dead.turn_id)

    def _require_idle(self, document: Document, recover: Recover | None) -> Claim | None:
        """Return the claim to keep: None, or that of a dead turn if nothing recovers it.

        Raises:
            SessionBusy: A turn is running.
            _TurnDied: A dead turn has to be recovered first.
        """
        claim = self._claims.evaluated(document.envelope.claim)
        if claim is None:
            return None
        if claim.alive:
            raise SessionBusy(claim.session_id, claim.turn_id)
        if recover is not None:
            raise _TurnDied(claim)
        return document.envelope.claim


class _TurnDied(Exception):
    """Raised when a dead turn has to be recovered first."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim)
        self.claim = claim


def _changed(document: Document, change: Change) -> Session:
    session = document.session
    require_known_format(session)
    changed = change(session)
    return session if changed is session else counted(changed)
