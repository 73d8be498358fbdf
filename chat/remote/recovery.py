"""Seals the turns of processes that died; ``sealing.py`` decides what is written."""

import errno
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain

from chat.remote.continuing import ContinuingRules, may_continue
from chat.remote.replay import ReplayedTurn, is_sound, replay
from chat.remote.sealing import (
    closing_lines,
    is_question_gone,
    missing_entries,
    seal_session,
)
from chat.remote.sealing_schedule import SealingSchedule
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
from sessions_app.queueing import next_message, recovered
from sessions_app.session import Session
from sessions_app.store.atomic import raise_if_unwritable
from sessions_app.store.repository import Claim, Hold, SessionRepository

logger = logging.getLogger(__name__)

_PASSING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS}
)
"""Errors that are not the file's fault, and may pass."""


MOST_FENCES = 5
"""The attempts of a new turn to end the journals of earlier ones, if others do the same."""

WAITING_SECONDS = 10.0
"""The shortest pause between two searches for messages that wait in sessions without a turn."""

CLOCKS_APART_SECONDS = 7200.0


class ToBeContinued(SessionBusy):
    """The session's turn, whose process died, goes on in another one."""


class TurnRecovery:
    """Completes the sessions and journals of dead turns. All calls block.

    Args:
        repository: The sessions.
        journal: The journals of their turns.
        rules: Which turns go on instead; None seals all.

    Attributes:
        rules: As above.
    """

    def __init__(
        self,
        *,
        repository: SessionRepository,
        journal: TurnJournal,
        rules: ContinuingRules | None = None,
    ) -> None:
        self.rules = rules
        self._continue: Callable[[str], object] = _ignore
        self._repository = repository
        self._journal = journal
        self._retries = SealingSchedule()
        self._unreleased: dict[str, Hold] = {}
        self._answer_waiting: Callable[[str], object] | None = None
        self._look_at = 0.0

    def when_waiting(self, answer: Callable[[str], object]) -> None:
        """Call ``answer`` with each idle session that is found with a message in its inbox."""
        self._answer_waiting = answer

    def notice_waiting(self, session: Session) -> None:
        """Have the next message in the inbox of an idle session answered."""
        if self._answer_waiting is None or session.inbox.is_empty:
            return
        if session.inbox.taken is not None or next_message(session) is not None:
            self._answer_waiting(session.session_id)

    def release_later(self, session_id: str, hold: Hold) -> None:
        """Release a claim of this process with the next sealing, as that can't be done now.

        Without a journal, nothing else shows that its turn did not begin.
        """
        self._unreleased[session_id] = hold

    def when_to_continue(self, call: Callable[[str], object]) -> None:
        """Register what goes on with the turn of a session, which is called in any thread."""
        self._continue = call

    def may_continue(self, session: Session, turn: ReplayedTurn, turn_id: str) -> bool:
        """Return whether a dead turn goes on instead of being sealed."""
        rules = self.rules
        return rules is not None and may_continue(session, turn, turn_id, rules, now=utc_now())

    def recover(self, session: Session, claim: Claim) -> Session:
        """Return the session with the remains of its dead turn; the repository saves it.

        An invalid claim names no turn; then the turns are found by their unended journals.

        Raises:
            ToBeContinued: The turn goes on, here or in another process.
        """
        sealed = session
        if claim.turn_id:
            self._journal.adopt(claim.session_id, claim.turn_id)
            self._require_over(session, claim)
        for turn_id in [claim.turn_id] if claim.turn_id else self._dead_turns(claim.session_id):
            is_read = False
            with self._moved_aside_if_it_fails(claim.session_id, turn_id):
                sealed = self._with_remains(sealed, turn_id, claim.begun)
                is_read = True
            if not is_read:  # what the claim knows is left
                sealed = seal_session(sealed, replay(()), now=utc_now(), begun=claim.begun)
        if sealed.inbox.taken is not None and sealed.inbox.taken.turn_id == claim.turn_id:
            shown = self._replay(claim.session_id, claim.turn_id)
            sealed = recovered(sealed, has_begun=bool(shown.last_number))
        logger.warning(
            "sealed a turn whose process died",
            extra={"session_id": claim.session_id, "turn_id": claim.turn_id},
        )
        return sealed

    def _require_over(self, session: Session, claim: Claim) -> None:
        if self.rules is None:
            return
        session_id, turn_id = claim.session_id, claim.turn_id
        if self._journal.is_being_written(session_id, turn_id):  # another process goes on already
            raise ToBeContinued(session_id, turn_id)
        try:
            turn = self._replay(session_id, turn_id)
        except Exception:  # noqa: BLE001 - sealing sets aside what can't be read, and tells of it
            return
        # By who let go of it, or failed to go on.
        is_left = turn.was_handed_over or turn.is_resuming
        if self._repository.owners.lives(claim.owner) and not is_left:
            return  # it could not be saved, and its clients were told so
        if self.may_continue(session, turn, turn_id):
            self._continue(session_id)
            raise ToBeContinued(session_id, turn_id)

    def _with_remains(self, session: Session, turn_id: str, begun: Sequence[str]) -> Session:
        """Return the session with the turn's remains, as far as they can be read and saved."""
        session_id = session.session_id
        self._journal.take_over(session_id, turn_id).close()  # before it is read
        if self._journal.set_aside(session_id, turn_id, is_sound):
            _warn("lines of a journal could not be read and were set aside", session_id, turn_id)
        turn = self._replay(session_id, turn_id)
        if turn.text and is_question_gone(session, turn):
            self._journal.copy_aside(session_id, turn_id)
            _warn("an answer whose question is gone was set aside", session_id, turn_id)
        sealed = seal_session(session, turn, now=utc_now(), begun=begun)
        if sealed is session or self._repository.can_hold(sealed):
            return sealed
        self._journal.copy_aside(session_id, turn_id)
        _warn("a session can't hold what a turn left; it was set aside", session_id, turn_id)
        turn.clear()
        sealed = seal_session(session, turn, now=utc_now(), begun=begun)
        return sealed if self._repository.can_hold(sealed) else session

    def end_journals(self, session: Session, turns: Sequence[str] | None = None) -> Session:
        """End the journals of the session's dead turns, whose remains must be saved already.

        If several processes do so at once, the last one to take a journal over ends it, unless it
        has ended by then.

        Args:
            session: The session after these turns.
            turns: Its turns with a journal, oldest first, if the caller has just listed them.

        Returns:
            The session, unchanged, so that this can be passed as a change to a repository.

        Raises:
            SessionBusy: Another process is ending one of them.
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
        """Move a journal aside if it can't be processed, so that its session stays usable.

        Raises:
            StorageError: The disk can't be written to now; the journal stays, for a later attempt.
            SessionBusy: Another process has taken the journal over.
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
        """Return the turns whose journal has no end and no live writer.

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

    def seal(self, session_id: str) -> bool:
        """Seal the session's dead turn, if any; do nothing to a running turn.

        Returns whether the turn goes on instead.

        The turn's remains are saved before its journal is ended. Several processes may seal the
        same turn, and each may die at any point.

        Journals and the claim of a missing session are kept, as it may not be mounted yet or is
        just being replaced, unless it was deleted.
        """
        if (hold := self._unreleased.get(session_id)) is not None:
            self._repository.release(session_id, hold)
            self._unreleased.pop(session_id, None)
        try:
            self._repository.update_idle(session_id, _unchanged, recover=self.recover)
            self.notice_waiting(self._repository.update_idle(session_id, self.end_journals))
        except ToBeContinued:
            return True
        except SessionBusy:
            pass  # another process was faster: it seals the turn, or a new one runs
        except SessionReadOnly:
            pass  # a newer server's: it will seal it
        except SessionNotFound:
            deleted_at = self._repository.deleted_at(session_id)
            if deleted_at is not None:
                self._discard_before(session_id, deleted_at)
                if (claim := self._repository.claim_of(session_id)) is not None:
                    self._repository.release(session_id, claim.hold)
        return False

    def forget(self, session_id: str) -> None:
        """Remove the journals of a session whose file was replaced by a copy.

        They are of turns that the copy may lack: clients and keys would find them there. Those
        without an end, which could not be sealed, are set aside.
        """
        for turn_id in self._journal.turns(session_id):
            if self._journal.has_ended(session_id, turn_id):
                self._journal.discard(session_id, turn_id)
            elif not self._journal.is_being_written(session_id, turn_id):
                self._journal.move_aside(session_id, turn_id)
                _warn("a journal of a replaced session was set aside", session_id, turn_id)

    def _discard_before(self, session_id: str, deleted_at: str) -> None:
        """Remove the journals of the turns that began before the session was deleted.

        Allows for a deletion by a machine whose clock is behind.
        """
        for turn_id in self._journal.turns(session_id):
            if time_of(turn_id, earlier_seconds=CLOCKS_APART_SECONDS) <= deleted_at:
                self._journal.discard(session_id, turn_id)

    def copy_of(self, session_id: str) -> Session | None:
        """Return the session as it would be sealed if its turn's process died now.

        Changes nothing. Returns None if no turn runs.

        Raises:
            SessionNotFound: The session does not exist.
            SessionCorrupt: The session can't be read.
        """
        claim = self._repository.claim_of(session_id)
        if claim is None or not claim.turn_id:
            return None
        turn = self._replay(session_id, claim.turn_id)  # first: what it has may be saved meanwhile
        session = self._repository.load(session_id)
        return seal_session(session, turn, now=utc_now(), begun=claim.begun)

    def seal_all(self) -> None:
        """Seal every dead turn; continue with the others if a session can't be sealed.

        Each failure is logged as an error once. May be called every second: only sessions of dead
        turns are read, and failed ones are retried with growing pauses.
        """
        dead = {claim.session_id for claim in self._repository.claims() if not claim.alive}
        self.seal_each(dead | set(self._journal.unended_sessions()) | self._unreleased.keys())
        self._find_waiting()

    def _find_waiting(self) -> None:
        """Find the sessions without a turn that have messages in their inboxes."""
        now = time.monotonic()
        if self._answer_waiting is None or now < self._look_at:
            return
        self._look_at = now + WAITING_SECONDS
        listed = self._repository.list().sessions
        waiting = {
            each.session_id for each in listed if each.queued is not None and not each.queue_paused
        }
        if waiting:
            for session_id in waiting - {claim.session_id for claim in self._repository.claims()}:
                self._answer_waiting(session_id)

    def seal_unended(self) -> None:
        """Seal the dead turns that left a journal, without checking each claim."""
        self.seal_each(set(self._journal.unended_sessions()))

    def seal_each(self, sessions: Collection[str]) -> None:
        """Seal the dead turns of sessions as ``seal_all`` does."""
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


def _warn(message: str, session_id: str, turn_id: str) -> None:
    logger.warning(message, extra={"session_id": session_id, "turn_id": turn_id})


def _ignore(session_id: str) -> None:
    """Do nothing: this process runs no turns."""


def _unchanged(session: Session) -> Session:
    return session
