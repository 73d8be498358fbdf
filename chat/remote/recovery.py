"""Seals the turns of processes that died; ``sealing.py`` decides what is written."""

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain

import msgspec

from chat.remote.replay import ReplayedTurn, is_sound, replay
from chat.remote.retries import SealingSchedule
from chat.remote.sealing import closing_lines, missing_entries, seal_session
from chat.storage.idempotency_keys import IdempotencyKeys
from chat.storage.journal import Entry, Fenced, TurnJournal, lines_of, whole_journal
from chat.turn.turn_ids import time_of
from sessions_app.errors import (
    MochiError,
    SessionBusy,
    SessionNotFound,
    SessionReadOnly,
    StorageError,
)
from sessions_app.ids_and_clock import utc_now
from sessions_app.session import Session
from sessions_app.store.atomic import raise_if_unwritable
from sessions_app.store.repository import Claim, SessionRepository

logger = logging.getLogger(__name__)

_PASSING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS}
)
"""Why a file can't be read or written although nothing is wrong with it."""


MOST_FENCES = 5
"""The tries of a turn that begins to end its predecessors, while others do the same."""

CLOCKS_APART_SECONDS = 7200.0


class TurnRecovery:
    """Brings sessions and journals of dead turns to their end. All its calls block.

    Args:
        repository: The sessions.
        journal: The journals of their turns.
        keys: The keys of their turns; None if another one sweeps them.
        other_turns: The turns with a journal elsewhere for which these keys may stand, too.
    """

    def __init__(
        self,
        *,
        repository: SessionRepository,
        journal: TurnJournal,
        keys: IdempotencyKeys | None,
        other_turns: Callable[[], set[str]] = set,
    ) -> None:
        self._repository = repository
        self._journal = journal
        self._keys = keys
        self._other_turns = other_turns
        self._retries = SealingSchedule()

    def recover(self, session: Session, claim: Claim) -> Session:
        """Return the session with what its dead turn left; the repository saves it.

        A claim that makes no sense names no turn: then the journals tell which one it was.
        """
        sealed = session
        if claim.turn_id:
            self._journal.adopt(claim.session_id, claim.turn_id)
        for turn_id in [claim.turn_id] if claim.turn_id else self._dead_turns(claim.session_id):
            is_read = False
            with self._moved_aside_if_it_fails(claim.session_id, turn_id):
                sealed = self._with_remains(sealed, turn_id, claim.begun)
                is_read = True
            if not is_read:  # what the claim knows is left
                sealed = seal_session(sealed, replay(()), now=utc_now(), begun=claim.begun)
        logger.warning(
            "sealed a turn whose process died",
            extra={"session_id": claim.session_id, "turn_id": claim.turn_id},
        )
        return sealed

    def _with_remains(self, session: Session, turn_id: str, begun: Sequence[str]) -> Session:
        """Return the session with what the turn left, as far as that can be read and saved."""
        session_id = session.session_id
        self._journal.take_over(session_id, turn_id).close()  # before it is read
        if self._journal.set_aside(session_id, turn_id, is_sound):
            _warn("lines of a journal could not be read and were set aside", session_id, turn_id)
        turn = self._replay(session_id, turn_id)
        sealed = seal_session(session, turn, now=utc_now(), begun=begun)
        if sealed is session or self._repository.can_hold(sealed):
            return sealed
        self._journal.copy_aside(session_id, turn_id)
        _warn("a session can't hold what a turn left; it was set aside", session_id, turn_id)
        without = msgspec.structs.replace(turn, text="", thinking="")
        sealed = seal_session(session, without, now=utc_now(), begun=begun)
        return sealed if self._repository.can_hold(sealed) else session

    def end_journals(self, session: Session, turns: Sequence[str] | None = None) -> Session:
        """End every journal of the session that its writer could not end.

        What the turns left is saved by then. Others may do the same: who takes a journal over last
        ends it, unless it finds that it has ended.

        Args:
            session: The session, as it is after these turns.
            turns: Its turns with a journal, oldest first, where the caller has just listed them.

        Returns:
            The session as it is, so that this can be a repository's change that changes nothing.

        Raises:
            SessionBusy: Another process ends one of them just now.
        """
        for turn_id in self._dead_turns(session.session_id, turns):
            with self._moved_aside_if_it_fails(session.session_id, turn_id):
                self._end_journal(session, turn_id)
        return session

    def end_earlier(self, session: Session, turns: Sequence[str]) -> None:
        """End the journals of earlier turns, for a turn that has just claimed the session.

        Other processes may end them at the same time and fence this one off; then it is tried
        again, up to ``MOST_FENCES`` times in all.

        Raises:
            SessionBusy: Others came in between each time.
        """
        for left in reversed(range(MOST_FENCES)):
            try:
                self.end_journals(session, turns)
            except SessionBusy:
                if not left:
                    raise
            else:
                return

    def _end_journal(self, session: Session, turn_id: str) -> None:
        with closing(self._journal.take_over(session.session_id, turn_id)) as writer:
            turn = self._replay(session.session_id, turn_id)  # nothing comes to it any more
            if turn.has_ended:
                return
            missing = missing_entries(session, turn, turn_id)
            if missing:
                turn = self._replay(session.session_id, turn_id, missing)
            if turn.last_number:
                writer.append(lines_of(missing) + closing_lines(session, turn, turn_id))
                return
        self._journal.discard(session.session_id, turn_id)  # nothing of it is to be seen

    @contextmanager
    def _moved_aside_if_it_fails(self, session_id: str, turn_id: str) -> Iterator[None]:
        """Put a journal aside that can't be dealt with: no session may be lost to it.

        Raises:
            StorageError: The disk takes nothing now. What is there stays, and is dealt with later.
            SessionBusy: Another process deals with it.
        """
        try:
            yield
        except StorageError:
            raise
        except Fenced as error:
            raise SessionBusy(session_id) from error
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _PASSING:
                raise_if_unwritable(error)
                raise
            logger.exception(
                "a journal could not be dealt with and was set aside",
                extra={"session_id": session_id, "turn_id": turn_id},
            )
            self._journal.move_aside(session_id, turn_id)

    def _dead_turns(self, session_id: str, turns: Sequence[str] | None = None) -> list[str]:
        """Return the turns whose journal has no end and will get none from its writer.

        A turn releases its session just before its last events. With ``turns``, the search ends at
        the newest ended journal; older ones were ended, unless a turn died at that moment.
        """
        dead: list[str] = []
        for turn_id in reversed(self._journal.turns(session_id) if turns is None else turns):
            if self._journal.has_ended(session_id, turn_id):
                if turns is not None:
                    break
            elif not self._journal.is_being_written(session_id, turn_id):
                dead.insert(0, turn_id)
        return dead

    def _replay(self, session_id: str, turn_id: str, missing: Sequence[Entry] = ()) -> ReplayedTurn:
        return replay(chain(whole_journal(self._journal, session_id, turn_id), missing))

    def seal(self, session_id: str) -> None:
        """Seal the session's dead turn, if there is one; a running turn is left alone.

        What the turn left is saved before its journal tells how it ended. Several may seal the same
        turn, and each of them may die on the way.

        The journals of a session that is not there wait for it (it may not be mounted yet, or be in
        the middle of being replaced), unless it was deleted.
        """
        try:
            self._repository.update_idle(session_id, _unchanged, recover=self.recover)
            self._repository.update_idle(session_id, self.end_journals)
        except SessionBusy:
            return  # another process was faster: it seals the turn, or a new one runs
        except SessionReadOnly:
            return  # a newer server's: it will seal it
        except SessionNotFound:
            deleted_at = self._repository.deleted_at(session_id)
            if deleted_at is not None:
                self._discard_before(session_id, deleted_at)

    def _discard_before(self, session_id: str, deleted_at: str) -> None:
        """Forget the journals of a session's turns that began before it was deleted.

        It may have been deleted by a machine whose clock is behind that of the turn's.
        """
        for turn_id in self._journal.turns(session_id):
            if time_of(turn_id, earlier_seconds=CLOCKS_APART_SECONDS) <= deleted_at:
                self._journal.discard(session_id, turn_id)

    def copy_of(self, session_id: str) -> Session | None:
        """Return the session as its running turn would leave it, died its process now.

        Changes nothing. None if no turn runs.

        Raises:
            SessionNotFound: There is none with this id.
            SessionCorrupt: Its file can't be read.
        """
        claim = self._repository.claim_of(session_id)
        if claim is None or not claim.turn_id:
            return None
        turn = self._replay(session_id, claim.turn_id)  # first: what it has may be saved meanwhile
        session = self._repository.load(session_id)
        return seal_session(session, turn, now=utc_now(), begun=claim.begun)

    def seal_all(self) -> None:
        """Seal every dead turn; one session that can't be sealed does not keep the others.

        That is an error in the log once, and again when there is another reason. It may be called
        every second: no session is read unless its turn is dead, and one that stays so is tried
        less and less often.
        """
        dead = {claim.session_id for claim in self._repository.claims() if not claim.alive}
        self._seal_each(dead | set(self._journal.unended_sessions()))

    def seal_unended(self) -> None:
        """Seal the dead turns that left a journal, without a look at each claim."""
        self._seal_each(set(self._journal.unended_sessions()))

    def _seal_each(self, sessions: set[str]) -> None:
        for session_id in self._retries.due(sessions):
            try:
                self.seal(session_id)
            except MochiError as error:  # a typed error says it all
                self._log_failure(session_id, f"{error.code}: {error.message}", code=error.code)
            except Exception as error:  # noqa: BLE001 - what lies on the disk may be anything
                self._log_failure(session_id, repr(error), exc_info=True)

    def _log_failure(
        self, session_id: str, why: str, *, exc_info: bool = False, **facts: str
    ) -> None:
        level = logging.ERROR if self._retries.is_news(session_id, why) else logging.DEBUG
        logger.log(
            level,
            "a dead turn could not be sealed",
            extra={"session_id": session_id, **facts},
            exc_info=exc_info,
        )

    def sweep(self, older_than_seconds: float) -> None:
        """Remove journals that ended longer ago than that, and what dead writers left behind."""
        self._journal.sweep(older_than_seconds)
        self._repository.sweep()
        if self._keys is not None:
            known = self._journal.all_turns() | self._other_turns()
            self._keys.sweep(older_than_seconds, known_turns=known)


def _warn(message: str, session_id: str, turn_id: str) -> None:
    logger.warning(message, extra={"session_id": session_id, "turn_id": turn_id})


def _unchanged(session: Session) -> Session:
    return session
