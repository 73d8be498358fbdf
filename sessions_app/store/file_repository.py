"""Keeps sessions as files: one JSON file each, replaced whole, locked across processes.

::

    {sessions_dir}/{session_id}.json
    {sessions_dir}/.{session_id}.json.spare         the last file but one, if it is large
    {sessions_dir}/.locks/{stripe}.lock             held for milliseconds, never for a turn
    {sessions_dir}/.locks/saves                     the ids of those that were saved lately
    {sessions_dir}/.claims/{session_id}.claim       the session has a running turn
    {sessions_dir}/.claims/{session_id}.deleted     the session was deleted
    {sessions_dir}/.claims/workers/{owner}.lock     held as long as that process lives
"""

import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from sessions_app.errors import (
    SessionBusy,
    SessionCorrupt,
    SessionExists,
    SessionNotFound,
)
from sessions_app.format.rewriting import SessionFile
from sessions_app.ids_and_clock import SESSION_ID, is_session_id, utc_now
from sessions_app.session import Session, SessionMetadata, counted, require_known_format
from sessions_app.store.atomic import raise_if_unwritable, sync_directory
from sessions_app.store.begun_calls import BegunCalls
from sessions_app.store.claims import TurnClaims
from sessions_app.store.file_owners import FileOwners
from sessions_app.store.growing import drop_spare, is_stale
from sessions_app.store.listing import CachedListing, read_head
from sessions_app.store.locks import FileLocks, HeldLock
from sessions_app.store.owners import Owners
from sessions_app.store.repository import Change, Check, Claim, Listing, Opening, Recover, Result
from sessions_app.store.save_log import SaveLog
from sessions_app.store.session_files import SIZE_LIMIT, SessionFiles
from sessions_app.store.tombstones import Tombstones

LOCK_TIMEOUT_SECONDS = 30.0

_LEFT_OVER = re.compile(rf"\.({SESSION_ID})\.json\.(?:[0-9a-f]+\.tmp|spare)", re.ASCII)


class FileSessionRepository:
    """Keeps sessions as files in a directory, which is made with the first write.

    Safe to use from several threads and processes at once. Reading takes no lock: files are only
    ever replaced whole.

    Args:
        sessions_dir: The directory.
        owners: The processes that may claim sessions; by default those with a liveness file here.
        now: Where the start times of claims come from.
        is_over: Whether a turn has ended although its claim is there (session, turn): one that
            could not save what it left keeps its claim while its process lives on.
        keeps_begun: Whether claims keep the calls that have begun. Journals that lie on the same
            disk know as well.
        durable: Whether sessions shall survive a power cut, and it is to be known of a deleted one
            that it was deleted. False for those that end with their turns anyway.
    """

    def __init__(
        self,
        sessions_dir: Path,
        *,
        owners: Owners | None = None,
        now: Callable[[], str] = utc_now,
        is_over: Callable[[str, str], bool] = lambda _session_id, _turn_id: False,
        keeps_begun: bool = False,
        durable: bool = True,
    ) -> None:
        self._directory = str(sessions_dir)
        self._now = now
        self._is_over = is_over
        claims = f"{self._directory}/.claims"
        self.owners: Owners = owners or FileOwners(f"{claims}/workers")
        self.keeps_begun = keeps_begun
        begun = BegunCalls(claims) if keeps_begun else None
        self._claims = TurnClaims(claims, self.owners, begun=begun)
        self._tombstones = Tombstones(sessions_dir / ".claims")
        self._saves = SaveLog(f"{self._directory}/.locks/saves")
        self._listing = CachedListing(sessions_dir, size_limit=SIZE_LIMIT, saves=self._saves)
        self._locks = FileLocks(f"{self._directory}/.locks")
        self._durable = durable
        self._files = SessionFiles(self._directory, durable=durable, saved=self._saves.note)

    def create(self, session: Session) -> None:
        """Keep a new session.

        Raises:
            SessionExists: Its id is taken.
            StorageFull: No space is left.
        """
        with self._locked_new(session):
            self._make(session)
        self._files.recent.read_ahead(session.session_id)

    def load(self, session_id: str) -> Session:
        """Return the session.

        Raises:
            SessionNotFound: There is none with this id.
            SessionCorrupt: Its file can't be read.
        """
        _require_id(session_id)
        return self._files.read(session_id).session

    def recall(self, session_id: str) -> Session | None:
        """Return the session as this process read or wrote it last, at once; None if it did not.

        It may be out of date.
        """
        return self._files.recent.recall(session_id)

    def update(
        self,
        session_id: str,
        change: Change,
        *,
        turn_id: str | None = None,
        release: bool = False,
        begun: Sequence[str] = (),
    ) -> Session:
        """Replace the session by ``change(session)``, under its lock, and return the new one.

        With ``release`` the turn's claim is given up with it.

        Raises:
            SessionBusy: ``turn_id`` is given and does not hold the session's claim.
            SessionNotFound: There is none with this id.
            SessionCorrupt: Its file can't be read; it is left untouched.
            StorageFull: No space is left; what was there is intact.
        """
        with self._locked_existing(session_id):
            if turn_id is not None:
                holder = self._claims.turn_of(session_id)
                if holder != turn_id:
                    raise self._busy(session_id, holder)
                self._claims.begin(session_id, turn_id, begun)
            file = self._read_to_change(session_id)
            session = self._files.change(file if turn_id else file.whole(), change)
            if release:
                self._claims.remove(session_id)
        if release:  # before the next turn waits for it
            self._files.recent.read_ahead(session_id)
        return session

    def update_idle(
        self, session_id: str, change: Change, *, recover: Recover | None = None
    ) -> Session:
        """Like ``update``, but only while no turn runs; a dead turn is recovered first.

        Without ``recover`` a dead turn's claim stays.

        Raises:
            SessionBusy: A turn is running.
        """
        with self._locked_existing(session_id):
            session = self._files.change(self._settle(session_id, recover).whole(), change)
        self._files.recent.read_ahead(session_id)
        return session

    def delete(self, session_id: str, *, check: Check | None = None) -> None:
        """Remove the session's file, readable or not; a symbolic link goes, not what it names.

        With ``check`` it must be readable; what that raises keeps the file.

        Raises:
            SessionBusy: A turn is running.
            SessionNotFound: There is none with this id.
            SessionCorrupt: A directory stands in its place.
        """
        with self._locked_existing(session_id):
            self._refuse_running(session_id)
            if check is not None:
                check(self._files.read(session_id).session)
            path = self._files.path(session_id)
            try:
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    raise SessionCorrupt(session_id, "not a regular file")
                if self._durable:
                    self._tombstones.write(session_id, deleted_at=self._now())
                os.unlink(path)
                drop_spare(path)
            except FileNotFoundError as error:
                raise SessionNotFound(session_id) from error
            except OSError as error:
                raise_if_unwritable(error)
                raise
            self._saves.note(session_id)
            if self._durable:
                sync_directory(self._directory)
            self._claims.remove(session_id)
            self._files.recent.forget(session_id)

    def can_hold(self, session: Session) -> bool:
        """Return whether the session as it is now can be saved by a recovery, and read again."""
        return self._files.can_hold(session)

    def deleted_at(self, session_id: str) -> str | None:
        """Return when the session was deleted, lately; None when it is not known to have been."""
        _require_id(session_id)
        if self._files.exists(session_id):
            return None
        return self._tombstones.read(session_id)

    def list(
        self,
        *,
        anew: bool = False,  # noqa: ARG002 - it always does
        quickly: bool = False,
    ) -> Listing:
        """Return what there is, reading only what changed since the last call."""
        return self._listing.list(quickly=quickly)

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
        """Claim the session for a turn of a process, change it, and return both.

        What ``change`` raises leaves the session neither changed nor claimed; a ``new`` one is not
        made.

        Raises:
            SessionBusy: A turn is running.
            SessionExists: The id of a new session is taken.
            SessionNotFound: There is none with this id.
            SessionCorrupt: Its file can't be read.
            StorageFull: No space is left.
        """
        with self._locked_existing(session_id) if new is None else self._locked_new(new):
            if new is not None:
                changed, result = change(new)
                session = self._make(changed)
            else:
                file = self._settle(session_id, recover)
                changed, result = change(file.session)
                session = self._files.replace(file, changed)
            self._claims.write(session_id, turn_id=turn_id, owner=owner, started_at=self._now())
            return session, result

    def release(self, session_id: str, turn_id: str) -> None:
        """Give up that turn's claim; does nothing when it is not the current one."""
        _require_id(session_id)
        with self._locked(session_id):
            if self._claims.turn_of(session_id) == turn_id:
                self._claims.remove(session_id)

    def sync_claims(self) -> None:
        """Let the claims that were made so far survive a power cut."""
        self._claims.sync()

    def claim_of(self, session_id: str) -> Claim | None:
        """Return the claim on the session, dead or alive, or None."""
        _require_id(session_id)
        return self._claim_on(session_id)

    def look(self, session_id: str) -> tuple[SessionMetadata, Claim | None]:
        """Return what lists say of the session, and the claim on it; its file's head may do."""
        claim = self.claim_of(session_id)
        metadata = read_head(self._files.path(session_id), session_id)
        return metadata or self.load(session_id).metadata, claim

    def load_claimed(self, session_id: str, *, part: bool = False) -> tuple[Session, Claim | None]:
        """Return the session and the claim on it, dead or alive."""
        claim = self.claim_of(session_id)
        return self._files.read(session_id, partly=part).session, claim

    def claims(self) -> Sequence[Claim]:
        """Return every claim, dead or alive."""
        return [self._unless_over(claim) for claim in self._claims.all()]

    def sweep(self) -> int:
        """Remove files that dead processes left behind, and return how many.

        Those are temporary files of writes that were cut off, liveness files, and claims on deleted
        sessions. Other claims stay, also while their session's file is missing: their turns run,
        or wait to be recovered.
        """
        swept = self.owners.sweep()
        for claim in self.claims():
            if self.deleted_at(claim.session_id) is not None:
                with self._locked(claim.session_id):
                    if self.deleted_at(claim.session_id) is not None:
                        self._claims.remove(claim.session_id)
                        swept += 1
        swept += self._tombstones.sweep(self._files.exists)
        swept += self._saves.sweep()
        return swept + self._sweep_temporary_files()

    def _sweep_temporary_files(self) -> int:
        swept = 0
        with suppress(FileNotFoundError):
            for name in os.listdir(self._directory):
                path = f"{self._directory}/{name}"
                match = _LEFT_OVER.fullmatch(name)
                if match is None or (name.endswith(".spare") and not is_stale(path)):
                    continue
                # A writer holds the lock: with it in hand, the file is left over.
                with self._locked(match[1]), suppress(FileNotFoundError):
                    os.unlink(path)
                swept += 1
        return swept

    def _refuse_running(self, session_id: str) -> Claim | None:
        """Return the claim of a turn that died, if there is one."""
        claim = self._claim_on(session_id)
        if claim is not None and claim.alive:
            raise self._busy(session_id, claim.turn_id)
        return claim

    def _claim_on(self, session_id: str) -> Claim | None:
        """Return the claim, which counts as dead once its process is or its turn is over."""
        claim = self._claims.read(session_id)
        return None if claim is None else self._unless_over(claim)

    def _unless_over(self, claim: Claim) -> Claim:
        if claim.alive and claim.is_known and self._is_over(claim.session_id, claim.turn_id):
            return msgspec.structs.replace(claim, alive=False)
        return claim

    def _busy(self, session_id: str, turn_id: str | None) -> SessionBusy | SessionNotFound:
        """Return why a turn can't have the session: another has it, or it is gone."""
        if self._files.exists(session_id):
            return SessionBusy(session_id, turn_id)
        return SessionNotFound(session_id)

    def _settle(self, session_id: str, recover: Recover | None) -> SessionFile:
        """Return the session, on which no turn runs, after recovering one that died."""
        dead = self._refuse_running(session_id)
        file = self._read_to_change(session_id)
        if dead is None or recover is None:
            return file
        self._files.change(file, lambda found: recover(found, dead), recovers=True)
        self._claims.remove(session_id)
        return self._files.read(session_id, partly=True)

    def _read_to_change(self, session_id: str) -> SessionFile:
        """Return the session and its file, unless it may only be read."""
        file = self._files.read(session_id, partly=True)
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
        _require_id(session.session_id)
        require_known_format(session)
        return self._locked(session.session_id)

    def _locked_existing(self, session_id: str) -> HeldLock:
        _require_id(session_id)
        # Asking for what does not exist must not leave directories behind. Where the lock was
        # used before, nothing is left: there it is the reading of the file that tells.
        if not self._locks.is_made(session_id[:2]) and not self._files.exists(session_id):
            raise SessionNotFound(session_id)
        return self._locked(session_id)

    def _locked(self, session_id: str) -> HeldLock:
        """Take the session's lock; a sidecar, because a replaced file takes its lock with it.

        Sessions share 256 locks. Threads wait for each other here, processes in the file system.
        """
        try:
            return self._locks.held(session_id[:2], timeout_seconds=LOCK_TIMEOUT_SECONDS)
        except TimeoutError as error:
            raise SessionBusy(session_id) from error
        except OSError as error:
            raise_if_unwritable(error)
            raise


def _require_id(session_id: str) -> None:
    """Refuse what is no session id: it becomes a path, and must not lead anywhere else."""
    if not is_session_id(session_id):
        raise SessionNotFound(session_id)
