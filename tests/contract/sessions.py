"""Sessions that every repository is given."""

from collections.abc import Callable

from sessions_app.messages import UserMessage
from sessions_app.session import Session, SessionMetadata, append_messages

NOW = "2026-11-21T10:00:00.000000+00:00"
LATER = "2026-11-21T11:00:00.000000+00:00"
FIRST, SECOND = "a1b2c3d4e5", "0123456789"


def new_session(session_id: str = FIRST, *, updated_at: str = NOW) -> Session:
    return Session(
        metadata=SessionMetadata(
            session_id=session_id, model="m", created_at=NOW, updated_at=updated_at
        )
    )


def say(text: str) -> Callable[[Session], Session]:
    message = UserMessage(content=text, message_id=text, timestamp=NOW)
    return lambda session: append_messages(session, message, now=LATER)


def texts(session: Session) -> list[str]:
    return [message.content for message in session.messages]
