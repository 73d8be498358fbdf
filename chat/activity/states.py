"""Computes the state of each session: running, awaiting approval, or idle."""

import logging
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from chat.approvals.confirmation import Confirmation
from chat.approvals.store import ConfirmationStore
from chat.approvals.waiting import still_asked
from sessions_app.errors import SessionError, StorageUnavailable
from sessions_app.list_query import State
from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Claim, SessionReader, SessionRepository

logger = logging.getLogger(__name__)

OpenQuestions = Mapping[str, Sequence[Confirmation]]


class States:
    """The states of all sessions at one moment.

    Args:
        running: The sessions with a turn that runs.
        questions: What sessions ask people.
        sessions: Reads a session that changed since it asked: the question may be gone.
    """

    def __init__(
        self, running: AbstractSet[str], questions: OpenQuestions, sessions: SessionReader
    ) -> None:
        self._running = running
        self._questions = questions
        self._busy = running | questions.keys()
        self._sessions = sessions

    def of(self, metadata: SessionMetadata) -> State:
        """Return the state of a session.

        A question counts before the turn that waits for its answer, and also without one: the turn
        may have been suspended.
        """
        session_id = metadata.session_id
        if session_id in self._busy:  # of 10,000 sessions hardly any
            if self._asks(metadata, self._questions.get(session_id, ())):
                return "awaiting_approval"
            if session_id in self._running:
                return "running"
        return "idle"

    def _asks(self, metadata: SessionMetadata, questions: Sequence[Confirmation]) -> bool:
        """Return whether the session still has the message that asked one of these questions."""
        if not questions or metadata.updated_at <= min(each.created_at for each in questions):
            return bool(questions)
        try:
            session = self._sessions.load(metadata.session_id)
        except SessionError:  # gone just now, or it can't be read: nobody can answer
            return False
        return any(still_asked(session, each) for each in questions)


class StateReader:
    """Reads the states of sessions, of turns in any process. All calls block.

    Sessions can be read while the states of turns are unavailable (Redis). Their states are then
    those that were read last.

    Args:
        repository: The sessions and their claims.
        confirmation_store: What they ask people.
    """

    def __init__(
        self, repository: SessionRepository, confirmation_store: ConfirmationStore
    ) -> None:
        self._repository = repository
        self._confirmation_store = confirmation_store
        self._known: dict[str, tuple[Hashable, Sequence[Confirmation]]] = {}
        self._last = States(frozenset(), {}, repository)

    def all(self) -> States:
        """Return the states of all sessions; this is cheap, as claims and questions are few."""
        try:
            running = {claim.session_id for claim in self._repository.claims() if claim.alive}
            self._last = States(running, self._open_questions(), self._repository)
        except StorageUnavailable:
            logger.warning("the states of turns are unavailable")
        return self._last

    def of(self, metadata: SessionMetadata) -> State:
        """Return the state of one session.

        Raises:
            SessionNotFound: It is gone.
        """
        try:
            return self._state(metadata, self._repository.claim_of(metadata.session_id))
        except StorageUnavailable:
            logger.warning("the states of turns are unavailable")
            return self._last.of(metadata)

    def look(self, session_id: str) -> tuple[SessionMetadata, State]:
        """Return what lists say of a session, and its state.

        Raises:
            SessionNotFound: It is gone.
            SessionCorrupt: It can't be read.
        """
        metadata, claim = self._repository.look(session_id)
        return metadata, self._state(metadata, claim)

    def _state(self, metadata: SessionMetadata, claim: Claim | None) -> State:
        session_id = metadata.session_id
        running = {session_id} if claim is not None and claim.alive else set()
        questions = {session_id: self._confirmation_store.pending(session_id)}
        return States(running, questions, self._repository).of(metadata)

    def _open_questions(self) -> OpenQuestions:
        """Return what can be answered now; only what changed is read again."""
        store, before = self._confirmation_store, self._known
        found: dict[str, tuple[Hashable, Sequence[Confirmation]]] = {}
        for session_id, stamp in store.stamps().items():
            known = before.get(session_id)
            if known is None or known[0] != stamp:
                known = stamp, store.pending(session_id)
            found[session_id] = known
        self._known, now = found, store.now()
        return {
            session_id: asked
            for session_id, (_, asked) in found.items()
            if any(each.is_open(now) for each in asked)
        }
