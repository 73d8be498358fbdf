"""Changes messages of a session in the middle of its history. Pure."""

import msgspec

from sessions_app.errors import InvalidMessageIndex, MessageChanged
from sessions_app.messages import Attachment, UserMessage
from sessions_app.session import Session, message_at, with_messages, with_metadata
from sessions_app.text_rules import require_text


def edit_user_message(
    session: Session,
    index: int,
    content: str,
    *,
    now: str,
    message_id: str | None = None,
    attachments: tuple[Attachment, ...] | None = None,
) -> Session:
    """Replace the text of a user message, and cut off everything after it.

    The message keeps its id; its timestamp is renewed. A summary of the conversation goes too: it
    tells of what was cut off, and the next one would repeat it.

    Args:
        session: The session.
        index: Position among all messages, system prompt included, from 0.
        content: The new text.
        now: The time.
        message_id: The message that is meant, as a guard against editing another.
        attachments: Its images and files from now on; those that it has, unless given.

    Raises:
        ValidationFailed: The new text is blank, and nothing is attached.
        InvalidMessageIndex: There is no user message at the index.
        MessageChanged: ``message_id`` was given and is another message's.
    """
    message = message_at(session, index)
    if not isinstance(message, UserMessage):
        raise InvalidMessageIndex(
            f"Message {index} is a {message.role} message; only user messages can be edited.",
            message_index=index,
            role=message.role,
        )
    if message_id is not None and message_id != message.message_id:
        raise MessageChanged(
            f"Message {index} is not {message_id!r} but {message.message_id!r}. "
            "Read the messages again.",
            message_index=index,
            message_id=message.message_id,
        )
    attachments = message.attachments if attachments is None else attachments
    if not attachments:
        require_text(content, field="content")
    edited = msgspec.structs.replace(
        message, content=content, attachments=attachments, timestamp=now
    )
    cut = with_messages(session, (*session.messages[:index], edited), now=now)
    return with_metadata(cut, now=now, summary=None, summary_due=None)
