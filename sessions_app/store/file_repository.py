"""Stores each session as a JSON file, replaced atomically under a cross-process lock.

::

    {sessions_dir}/{session_id}.json
    {sessions_dir}/.id                              known to the attachments (docs/decisions/0111)
    {sessions_dir}/.locks/{stripe}.lock             held for milliseconds, never for a turn
    {sessions_dir}/.claims/{session_id}.claim       the claim of a running turn
    {sessions_dir}/.claims/{session_id}.deleted     the tombstone of a deleted session
    {sessions_dir}/.claims/workers/{owner}.lock     locked while that process is alive
"""

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from sessions_app.errors import (
    SessionBusy,
    SessionExists,
    SessionNotDeletable,
    SessionNotFound,
)
from sessions_app.format.rewriting import SessionFile
from sessions_app.ids_and_clock import utc_now
from sessions_app.session import Session, SessionMetadata, counted, require_known_format
from sessions_app.store.atomic import (
    raise_if_unwritable,
    sync_directory,
)
from sessions_app.store.begun_calls import BegunCalls
from sessions_app.store.claims import TurnClaims
from sessions_app.store.file_owners import FileOwners
from sessions_app.store.listing import CachedListing, read_head
from sessions_app.store.locks import FileLocks, HeldLock
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
from sessions_app.store.session_files import SIZE_LIMIT, SessionFiles
from sessions_app.store.tombstones import Tombstones

LOCK_TIMEOUT_SECONDS = 30.0


class FileSessionRepository:
    """Stores sessions as files in a directory, which is created with the first write.

    Safe for concurrent use by several threads and processes. Reads take no lock, because files are
    replaced atomically.

    Args:
        sessions_dir: The directory.
        owners: Tells which processes are alive; by default by liveness files in the directory.
        is_over: Returns whether a turn (session id, turn id) has ended although its claim remains,
            because its living process could not save the result.
        keeps_begun: Whether claims record the calls that have begun. Not needed if journals are on
            the same disk.
        durable: Whether sessions survive a power cut, and deletions are recorded. False for
            ephemeral sessions.
        observer: Handles changes.
    """

    def __init__(
        self,
        sessions_dir: Path,
        *,
        owners: Owners | None = None,
        is_over: Callable[[str, str], bool] = lambda _session_id, _turn_id: False,
        keeps_begun: bool = False,
        durable: bool = True,
        observer: SessionObserver = UNOBSERVED,
    ) -> None:
        self._directory = str(sessions_dir)
        self._is_over = is_over
        claims = f"{self._directory}/.claims"
        self.owners: Owners = owners or FileOwners(f"{claims}/workers")
        self.keeps_begun = keeps_begun
        begun = BegunCalls(claims) if keeps_begun else None
        self._claims = TurnClaims(claims, self.owners, begun=begun)
        self._tombstones = Tombstones(sessions_dir / ".claims")
        self._listing = CachedListing(sessions_dir, size_limit=SIZE_LIMIT)
        self._locks = FileLocks(f"{self._directory}/.locks")
        self._durable = durable
        self._observer = observer
        self._files = SessionFiles(self._directory, durable=durable)

    def create(self, session: Session) -> None:
        """Store a new session.

        Raises:
            SessionExists: The id is taken.
            StorageFull: No space is left.
        """
        with self._locked_new(session):
            self._make(session)
        self._observer.created(session.session_id)

    def load(self, session_id: str) -> Session:
        """Return the session.

        Raises:
            SessionNotFound: There is no session with this id.
            SessionCorrupt: The file can't be read.
        """
        require_session_id(session_id)
        return self._files.read(session_id).session

    def recall(self, session_id: str) -> Session | None:
        """Return the session from the cache, if it is there; it may be stale."""
        return self._files.recent.recall(session_id)

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
        """Replace the session by ``change(session)``, under its lock, and return the new one.

        With ``release`` the claim is removed, too; with ``owner`` it becomes that process's.

        Raises:
            SessionBusy: ``hold`` is given and is not the session's claim.
            SessionNotFound: There is no session with this id.
            SessionCorrupt: The file can't be read; it is left untouched.
            StorageFull: No space is left; the old file is intact.
        """
        with self._locked_existing(session_id):
            if hold is not None:
                current = self._claims.hold_of(session_id)
                if current != hold:
                    raise self._busy(session_id, current and current.turn_id)
                self._claims.begin(session_id, hold.turn_id, begun)
            file = self._read_to_change(session_id)
            session = self._files.change(file, change)
            if release:
                self._claims.remove(session_id)
            elif owner is not None and (claim := self._claims.read(session_id)) is not None:
                self._claims.write(
                    session_id, turn_id=claim.turn_id, owner=owner, started_at=claim.started_at
                )
        if release:
            self._observer.turn_ended(session_id, hold.turn_id if hold else "")
        else:
            self._observer.changed(session_id)
        return session

    def update_idle(
        self, session_id: str, change: Change, *, recover: Recover | None = None
    ) -> Session:
        """Update the session while no turn runs, after recovering a dead turn.

        Without ``recover``, a dead turn's claim stays.

        Raises:
            SessionBusy: A turn is running.
        """
        with self._locked_existing(session_id):
            session = self._files.change(self._recovered(session_id, recover), change)
        self._observer.changed(session_id)
        return session

    def delete(self, session_id: str, *, check: Check | None = None) -> None:
        """Remove the session's file, valid or not; of a symbolic link, only the link.

        With ``check`` the file must be valid; an error raised by ``check`` keeps it.

        Raises:
            SessionBusy: A turn is running.
            SessionNotFound: There is no session with this id.
            SessionNotDeletable: The path is a directory.
        """
        with self._locked_existing(session_id):
            self._require_idle(session_id)
            if check is not None:
                check(self._files.read(session_id).session)
            path = self._files.path(session_id)
            try:
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    raise SessionNotDeletable(session_id)
                if self._durable:
                    self._tombstones.write(session_id, deleted_at=utc_now())
                os.unlink(path)
            except FileNotFoundError as error:
                raise SessionNotFound(session_id) from error
            except OSError as error:
                raise_if_unwritable(error)
                raise
            if self._durable:
                sync_directory(self._directory)
            self._claims.remove(session_id)
            self._files.recent.forget(session_id)
        self._observer.deleted(session_id)

    def can_hold(self, session: Session) -> bool:
        """Return whether a recovery could save the session as it is now."""
        return self._files.can_hold(session)

    def deleted_at(self, session_id: str) -> str | None:
        """Return when the session was recently deleted; None if that is not known."""
        require_session_id(session_id)
        if self._files.exists(session_id):
            return None
        return self._tombstones.read(session_id)

    def list(self, *, anew: bool = False) -> Listing:  # noqa: ARG002 - it always does
        """Return all sessions, reading only files that changed since the last call."""
        return self._listing.list()

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
        """Claim the session for a turn, change it, and return it and the result of ``change``.

        If ``change`` raises, the session is neither changed nor claimed, and a ``new`` one is not
        created.

        Raises:
            SessionBusy: A turn is running.
            SessionExists: The id of a new session is taken.
            SessionNotFound: There is no session with this id.
            SessionCorrupt: The file can't be read.
            StorageFull: No space is left.
        """
        with self._locked_existing(session_id) if new is None else self._locked_new(new):
            if new is not None:
                changed, result = change(new)
                session = self._make(changed)
                self._claims.write(session_id, turn_id=turn_id, owner=owner, started_at=utc_now())
            else:
                file = self._recovered(session_id, recover)
                changed, result = change(file.session)
                # Before the session: a message that is taken from its inbox must not be in it
                # without a claim that tells who answers it.
                self._claims.write(session_id, turn_id=turn_id, owner=owner, started_at=utc_now())
                try:
                    session = self._files.replace(file, changed)
                except BaseException:
                    self._claims.remove(session_id)
                    raise
        if new is not None:
            self._observer.created(session_id)
        self._observer.turn_started(session_id, turn_id)
        return session, result

    def release(self, session_id: str, hold: Hold) -> None:
        """Release that claim; do nothing if it is not the current one."""
        require_session_id(session_id)
        with self._locked(session_id):
            if self._claims.hold_of(session_id) == hold:
                self._claims.remove(session_id)
        self._observer.turn_ended(session_id, hold.turn_id)

    def sync_claims(self) -> None:
        """Sync the claims made so far to disk."""
        self._claims.sync()

    def claim_of(self, session_id: str) -> Claim | None:
        """Return the claim on the session, dead or alive, or None."""
        require_session_id(session_id)
        return self._claim_on(session_id)

    def look(self, session_id: str) -> tuple[SessionMetadata, Claim | None]:
        """Return the session's metadata and claim, reading only the file's head if possible."""
        claim = self.claim_of(session_id)
        metadata = read_head(self._files.path(session_id), session_id)
        return metadata or self.load(session_id).metadata, claim

    def load_claimed(self, session_id: str) -> tuple[Session, Claim | None]:
        """Return the session and the claim on it, dead or alive."""
        claim = self.claim_of(session_id)
        return self._files.read(session_id).session, claim

    def claims(self) -> Sequence[Claim]:
        """Return every claim, dead or alive."""
        return [self._checked_for_end(claim) for claim in self._claims.all()]

    def sweep(self) -> int:
        """Remove old tombstones; return how many."""
        return self._tombstones.sweep(self._files.exists)

    def _require_idle(self, session_id: str) -> Claim | None:
        """Return the claim of a dead turn, if any; raise ``SessionBusy`` if a turn is running."""
        claim = self._claim_on(session_id)
        if claim is not None and claim.alive:
            raise self._busy(session_id, claim.turn_id)
        return claim

    def _claim_on(self, session_id: str) -> Claim | None:
        """Return the claim; ``alive`` is false if its process is dead or its turn has ended."""
        claim = self._claims.read(session_id)
        return None if claim is None else self._checked_for_end(claim)

    def _checked_for_end(self, claim: Claim) -> Claim:
        if claim.alive and claim.is_known and self._is_over(claim.session_id, claim.turn_id):
            return msgspec.structs.replace(claim, alive=False)
        return claim

    def _busy(self, session_id: str, turn_id: str | None) -> SessionBusy | SessionNotFound:
        """Return the error for a session without that claim: busy, or not found."""
        if self._files.exists(session_id):
            return SessionBusy(session_id, turn_id)
        return SessionNotFound(session_id)

    def _recovered(self, session_id: str, recover: Recover | None) -> SessionFile:
        """Return the session's file after recovering a dead turn; raise if a turn is running."""
        dead = self._require_idle(session_id)
        file = self._read_to_change(session_id)
        if dead is None or recover is None:
            return file
        self._files.change(file, lambda found: recover(found, dead), recovers=True)
        self._claims.remove(session_id)
        self._observer.turn_ended(session_id, dead.turn_id)
        return self._files.read(session_id)

    def _read_to_change(self, session_id: str) -> SessionFile:
        """Return the session's file; raise if its format is read-only."""
        file = self._files.read(session_id)
        require_known_format(file.session)
        return file

    def _make(self, session: Session) -> Session:
        """Write the file of a new session."""
        made = counted(session)
        try:
            self._files.write(made)
        except FileExistsError as error:
            raise SessionExists(session.session_id) from error
        return made

    def _locked_new(self, session: Session) -> HeldLock:
        require_session_id(session.session_id)
        require_known_format(session)
        return self._locked(session.session_id)

    def _locked_existing(self, session_id: str) -> HeldLock:
        require_session_id(session_id)
        # A request for a missing session must not create directories. If the lock's file exists
        # already, nothing is created, and reading the session's file tells.
        if not self._locks.is_made(session_id[:2]) and not self._files.exists(session_id):
            raise SessionNotFound(session_id)
        return self._locked(session_id)

    def _locked(self, session_id: str) -> HeldLock:
        """Take the session's lock, in a file of its own, since the session's file is replaced.

        Sessions share 256 locks, which work across threads and processes.
        """
        try:
            return self._locks.held(session_id[:2], timeout_seconds=LOCK_TIMEOUT_SECONDS)
        except TimeoutError as error:
            raise SessionBusy(session_id) from error
        except OSError as error:
            raise_if_unwritable(error)
            raise
