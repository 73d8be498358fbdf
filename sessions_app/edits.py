"""Changes messages of a session in the middle of its history. Pure."""

from collections.abc import Sequence

import msgspec

from sessions_app.calls import round_of
from sessions_app.context_state import ContextState, tells_of
from sessions_app.errors import InvalidMessageIndex, MessageChanged
from sessions_app.messages import (
    NO_EXTRA,
    Attachment,
    Message,
    SystemMessage,
    UserMessage,
    unhide,
)
from sessions_app.session import Session, message_at, with_messages, with_metadata
from sessions_app.text_rules import require_text


def index_of(messages: Sequence[Message], message_id: str) -> int:
    """Return the index of a message; raise ``MessageChanged`` if it is not there."""
    for index, message in enumerate(messages):
        if message.message_id == message_id:
            return index
    raise MessageChanged(
        "The message is not in the session any more. Read the messages again.",
        message_id=message_id,
    )


def edit_user_message(
    session: Session,
    index: int,
    content: str,
    *,
    now: str,
    message_id: str | None = None,
    attachments: tuple[Attachment, ...] | None = None,
) -> Session:
    """Replace the text of a user message, and remove all messages after it.

    The message keeps its id; its timestamp is renewed. A summary of the conversation is removed,
    too, since it covers removed messages and would influence the next summary.

    Args:
        session: The session.
        index: Position among all messages, system prompt included, from 0.
        content: The new text.
        now: The time.
        message_id: The expected id, as a guard against editing another message.
        attachments: The new images and files; None keeps the current ones.

    Raises:
        ValidationFailed: The new text is blank, and there are no attachments.
        InvalidMessageIndex: There is no user message at the index.
        MessageChanged: The message at the index has another id.
    """
    message = _meant(session, index, message_id)
    if not isinstance(message, UserMessage):
        raise InvalidMessageIndex(
            f"Message {index} has the role {message.role}; only user messages can be edited.",
            message_index=index,
            role=message.role,
        )
    attachments = message.attachments if attachments is None else attachments
    if not attachments:
        require_text(content, field="content")
    edited = msgspec.structs.replace(
        message, content=content, attachments=attachments, timestamp=now
    )
    return _cut(session, (*session.messages[:index], edited), index, now=now)


class Rewind(msgspec.Struct, frozen=True, kw_only=True):
    """Goes back to a user message, so that it is answered anew.

    Attributes:
        message_id: The message; without ``content`` also one of its answer.
        content: Its new text; None keeps the message and its answer, which is to be made again.
        attachments: Its new images and files, if there is a new text; None keeps the current ones.
    """

    message_id: str
    content: str | None = None
    attachments: tuple[Attachment, ...] | None = None


def rewind(session: Session, to: Rewind, *, now: str) -> Session:
    """Remove what was said after a user message: its answer, too, if the message is edited.

    Raises:
        ValidationFailed: The new text is blank, and there are no attachments.
        MessageChanged: The session has no such message any more.
    """
    index = index_of(session.messages, to.message_id)
    if to.content is not None:
        return edit_user_message(session, index, to.content, now=now, attachments=to.attachments)
    count = len(session.messages)
    stop = next(
        (at for at in range(index + 1, count) if isinstance(session.messages[at], UserMessage)),
        count,
    )
    if stop == count:
        return session
    return _cut(session, session.messages[:stop], stop, now=now)


def _cut(session: Session, messages: Sequence[Message], start: int, *, now: str) -> Session:
    """Return the session with these messages, and no summary of those removed from ``start``."""
    removed = range(start, len(session.messages))
    state = _state_without(session, removed)
    cut = with_messages(session, messages, now=now)
    return with_metadata(cut, now=now, summary=None, summary_due=None, context_state=state)


def delete_message(
    session: Session, index: int, *, now: str, message_id: str | None = None
) -> Session:
    """Delete a message; messages before and after it stay.

    A model's message with tool calls and their results are deleted together, whichever is given,
    because a model needs all of them. Summaries that cover them are removed, too, and a title that
    is the beginning of the message.

    Args:
        session: The session.
        index: Position among all messages, system prompt included, from 0.
        now: The time.
        message_id: The expected id, as a guard against deleting another message.

    Raises:
        InvalidMessageIndex: There is no message at the index, or it is the system prompt.
        MessageChanged: The message at the index has another id.
    """
    places = places_meant(session, index, message_id)
    left = (*session.messages[: places.start], *session.messages[places.stop :])
    return with_history(session, left, places, now=now)


def hide_message(
    session: Session, index: int, *, hidden: bool, now: str, message_id: str | None = None
) -> Session:
    """Hide a message from models, or show it to them again; the session keeps it.

    A model's message with tool calls and their results are hidden together, whichever is given.

    Args:
        session: The session.
        index: Position among all messages, system prompt included, from 0.
        hidden: Whether to hide or to show it. Idempotent.
        now: The time.
        message_id: The expected id, as a guard against hiding another message.

    Raises:
        InvalidMessageIndex: There is no message at the index, or it is the system prompt.
        MessageChanged: The message at the index has another id.
    """
    places = places_meant(session, index, message_id)
    if all(bool(session.messages[at].hidden) is hidden for at in places):
        return session
    changed = list(session.messages)
    for at in places:
        changed[at] = _hidden(changed[at]) if hidden else unhide(changed[at])
    return with_history(session, changed, places, now=now)


def with_history(
    session: Session, messages: Sequence[Message], places: range, *, now: str
) -> Session:
    """Replace the messages of a session, of which some in the middle were changed or removed.

    Summaries that tell of these are removed, too.

    Args:
        session: The session.
        messages: Its new messages.
        places: The former indexes of those that were changed or removed.
        now: The time.
    """
    return with_messages(_without_account_of(session, places, now=now), messages, now=now)


def places_meant(session: Session, index: int, message_id: str | None = None) -> range:
    """Return the indexes of the messages that are deleted or hidden with the one at the index.

    Raises:
        InvalidMessageIndex: There is no message at the index, or it is the system prompt.
        MessageChanged: The message at the index has another id.
    """
    message = _meant(session, index, message_id)
    if isinstance(message, SystemMessage):
        raise InvalidMessageIndex(
            f"Message {index} is the system prompt, which has a route of its own.",
            message_index=index,
            role=message.role,
        )
    return round_of(session.messages, index)


def _meant(session: Session, index: int, message_id: str | None) -> Message:
    message = message_at(session, index)
    if message_id is not None and message_id != message.message_id:
        raise MessageChanged(
            f"Message {index} is not {message_id!r} but {message.message_id!r}. "
            "Read the messages again.",
            message_index=index,
            message_id=message.message_id,
        )
    return message


def _without_account_of(session: Session, places: range, *, now: str) -> Session:
    """Remove summaries based on messages that models no longer see."""
    metadata = session.metadata
    told = metadata.summary is not None or metadata.summary_due is not None
    return with_metadata(
        session,
        now=now,
        summary=None,
        summary_due=now if told else None,
        context_state=_state_without(session, places),
        history_changed_at=now,
    )


def _state_without(session: Session, places: range) -> ContextState | None:
    """Return the session's context state, unless it tells of messages at these indexes."""
    state = session.metadata.context_state
    return None if state is not None and tells_of(state, session.messages, places) else state


def _hidden(message: Message) -> Message:
    if isinstance(message, SystemMessage):
        return message
    extra = {key: value for key, value in message.extra.items() if key != "hidden"}
    return msgspec.structs.replace(message, hidden=True, extra=extra or NO_EXTRA)
