"""Computes the state of each session: running, awaiting approval, or idle."""

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from chat.approvals.waiting import Questions, WaitingSessions
from sessions_app.errors import StorageUnavailable
from sessions_app.list_query import State
from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Claim, SessionRepository

logger = logging.getLogger(__name__)

OpenQuestions = Mapping[str, Questions]


class States:
    """The states of all sessions at one moment.

    Args:
        running: The sessions with a turn that runs.
        questions: What sessions ask people.
        waiting: Says whether they still do.
    """

    def __init__(
        self, running: AbstractSet[str], questions: OpenQuestions, waiting: WaitingSessions
    ) -> None:
        self._running = running
        self._questions = questions
        self._busy = running | questions.keys()
        self._waiting = waiting

    def of(self, metadata: SessionMetadata) -> State:
        """Return the state of a session.

        A question counts before the turn that waits for its answer, and also without one: the turn
        may have been suspended.
        """
        session_id = metadata.session_id
        if session_id in self._busy:  # of 10,000 sessions hardly any
            questions = self._questions.get(session_id)
            if questions is not None and self._waiting.asks(metadata, questions):
                return "awaiting_approval"
            if session_id in self._running:
                return "running"
        return "idle"


class StateReader:
    """Reads the states of sessions, of turns in any process. All calls block.

    Sessions can be read while the states of turns are unavailable (Redis). Their states are then
    those that were read last.

    Args:
        repository: The sessions and their claims.
        waiting: The sessions that ask something.
    """

    def __init__(self, repository: SessionRepository, waiting: WaitingSessions) -> None:
        self._repository = repository
        self._waiting = waiting
        self._last = States(frozenset(), {}, waiting)

    def all(self) -> States:
        """Return the states of all sessions; this is cheap, as claims and questions are few."""
        try:
            running = {claim.session_id for claim in self._repository.claims() if claim.alive}
            self._last = States(running, self._waiting.all(), self._waiting)
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
        questions = self._waiting.of(session_id)
        return States(running, {session_id: questions} if questions else {}, self._waiting).of(
            metadata
        )
