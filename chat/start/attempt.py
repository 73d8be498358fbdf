"""Records how a claim changed its session, so that the change can be undone.

Appended messages are undone if the turn can't begin or its request is refused, removed ones also if
it ends without an answer (docs/decisions/0003, 0110).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from sessions_app.messages import Message
from sessions_app.session import Session, SessionMetadata, counted, with_messages, with_refusal


class Attempt:
    """Records the change of a session that a claim makes, maybe several times.

    Args:
        is_new: Whether the session is created for the turn.
    """

    __slots__ = ("_is_new", "_made")

    def __init__(self, *, is_new: bool = False) -> None:
        self._is_new = is_new
        self._made: list[tuple[Session, Session, bool]] = []

    @property
    def was_made(self) -> bool:
        """Return whether the change was made, and so maybe saved."""
        return bool(self._made)

    def note(self, before: Session, after: Session, *, rewinds: bool = False) -> None:
        """Record a session before and after the change; only one of several results is saved.

        Args:
            before: The session.
            after: The changed session.
            rewinds: Whether messages are removed, and not only appended.
        """
        self._made.append((before, after, rewinds))

    def taken_back(self, session: Session) -> Session:
        """Return the session without the change.

        Later changes by others stay. A session created for the turn is marked as refused, unless
        others have changed it.
        """
        for before, after, rewinds in reversed(self._made):
            if rewinds:
                if _ids(session.messages) == _ids(after.messages):
                    return _rewound_back(session, counted(before), counted(after))
                continue
            said = _ids(after.messages[len(before.messages) :])
            kept = max(len(session.messages) - len(said), 0)
            if _ids(session.messages[kept:]) == said:
                return _undone(session, kept, counted(before), counted(after), is_new=self._is_new)
        return session


def _undone(
    session: Session, length: int, before: Session, after: Session, *, is_new: bool
) -> Session:
    """Return the session with its first ``length`` messages, and with the earlier metadata."""
    changed = _changed_since(session, after)
    back = session
    if length < len(session.messages):
        back = with_messages(session, session.messages[:length], now=session.metadata.updated_at)
    metadata = msgspec.structs.replace(before.metadata, **changed)
    back = counted(msgspec.structs.replace(back, metadata=metadata))
    return with_refusal(back) if is_new and not changed else back


def _rewound_back(session: Session, before: Session, after: Session) -> Session:
    """Return the session with the messages that the change removed, and the earlier metadata."""
    back = with_messages(session, before.messages, now=session.metadata.updated_at)
    metadata = msgspec.structs.replace(before.metadata, **_changed_since(session, after))
    return counted(msgspec.structs.replace(back, metadata=metadata))


def _changed_since(session: Session, after: Session) -> dict[str, Any]:
    """Return the metadata that was changed after the change, and is kept.

    Fields are compared one by one, as a title, a pin and a summary are written without a new
    ``updated_at``.
    """
    now, made = session.metadata, after.metadata
    fields = SessionMetadata.__struct_fields__
    changed = {
        each: getattr(now, each) for each in fields if getattr(now, each) != getattr(made, each)
    }
    if changed:
        changed["refused_at"] = None
    return changed


def _ids(messages: Sequence[Message]) -> list[str]:
    return [message.message_id for message in messages]
