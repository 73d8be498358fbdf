"""Resolves what a new response continues: a session, and the message that it follows."""

import msgspec

from dialects_app.responses.body import ResponseIn
from dialects_app.responses.conversations import session_of
from dialects_app.responses.errors import ConversationNotFound, PreviousResponseNotFound
from dialects_app.responses.store import ResponseStore
from dialects_app.shared.ids import ResponseId, read_response_id
from sessions_app.errors import SessionNotFound
from sessions_app.service import SessionManager
from sessions_app.session import Session


class Continued(msgspec.Struct, frozen=True, kw_only=True):
    """The session that a new response continues, and up to which message.

    Attributes:
        session: The session.
        length: The number of messages before the response.
        turn_id: The turn of the response that is continued, if the request names one.
        is_conversation: Whether the request names a conversation.
    """

    session: Session
    length: int
    turn_id: str | None = None
    is_conversation: bool = False

    @property
    def is_old(self) -> bool:
        """Return whether the session has later messages, so that a fork must be continued."""
        return self.length < len(self.session.messages)

    def branches_beside(self, running: str | None) -> bool:
        """Return whether a fork must be continued, also because of a turn that runs.

        A session is claimed for a turn before it has the turn's first message.
        """
        is_beside = running is not None and self.turn_id not in {None, running}
        return self.is_old or is_beside


def find_continued(
    body: ResponseIn, sessions: SessionManager, store: ResponseStore
) -> Continued | None:
    """Return what a response continues; None if it starts a session. Blocks.

    Raises:
        PreviousResponseNotFound, ConversationNotFound: It does not exist.
    """
    if body.previous_response_id is not None:
        return _after_response(body.previous_response_id, sessions, store)
    if body.conversation is None:
        return None
    named = body.conversation
    name = named if isinstance(named, str) else named.id
    try:
        session = sessions.get(session_of(name, field="conversation"))
    except SessionNotFound as missing:
        raise ConversationNotFound(name, field="conversation") from missing
    return Continued(session=session, length=len(session.messages), is_conversation=True)


def end_of_turn(session: Session, turn_id: str) -> int | None:
    """Return the number of messages at the end of a turn; None if the session has no such turn.

    The order of the messages tells, not the ids of turns, which have the time of a clock.
    """
    turns = [message.turn_id for message in session.messages]
    if turn_id not in turns:
        return None
    start = turns.index(turn_id)
    later = (at for at in range(start, len(turns)) if turns[at] not in (None, turn_id))
    return next(later, len(turns))


def _after_response(name: str, sessions: SessionManager, store: ResponseStore) -> Continued:
    named = read_response_id(name)
    if named is None or store.is_deleted(*named):
        raise PreviousResponseNotFound(name)
    try:
        session = sessions.get(named.session_id)
    except SessionNotFound as missing:
        raise PreviousResponseNotFound(name) from missing
    length = end_of_turn(session, named.turn_id)
    if length is None:
        length = _end_of_silent_turn(session, named, store)
    if length is None:
        raise PreviousResponseNotFound(name)
    return Continued(session=session, length=length, turn_id=named.turn_id)


def _end_of_silent_turn(session: Session, place: ResponseId, store: ResponseStore) -> int | None:
    """Return the number of messages at the end of a turn that only ran approved calls."""
    if store.known_record(*place) is None:
        return None
    said = [message.turn_id for message in session.messages if message.turn_id is not None]
    return len(session.messages) if not said or max(said) < place.turn_id else None
