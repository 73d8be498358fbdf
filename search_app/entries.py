"""Declares the searchable parts of a session: its messages, its title, its summary. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from sessions_app.messages import AssistantMessage, Message
from sessions_app.session import Session, SessionMetadata

FoundRole = Literal["user", "assistant", "tool", "system", "title", "summary"]
TEXT_LENGTH = 1_000_000
"""The number of first characters of a message that are searched."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A searchable text.

    Attributes:
        place: The entry's number within its session.
        message_index: The index of the message; None for a title or summary.
        message_id: The id of the message; None for a title or summary.
        role: The role of the message, or ``title`` or ``summary``.
        model: The model that answered, otherwise the session's.
        timestamp: The time of the message; for titles and summaries, of the session's last change.
        text: The text, and the names of attachments.
    """

    place: int
    message_index: int | None
    message_id: str | None
    role: FoundRole
    model: str
    timestamp: str
    text: str


def entries_of(session: Session) -> Iterator[Entry]:
    """Yield the searchable texts of a session, without variants and reasoning."""
    metadata = session.metadata
    count = len(session.messages)
    for index, message in enumerate(session.messages):
        text = _text_of(message)
        if text:
            answered = isinstance(message, AssistantMessage) and message.model
            yield Entry(
                place=index,
                message_index=index,
                message_id=message.message_id,
                role=message.role,  # type: ignore[arg-type] # those of messages are among them
                model=answered or metadata.model,
                timestamp=message.timestamp,
                text=text,
            )
    others: Sequence[tuple[FoundRole, str]] = (
        ("summary", _summary_of(metadata)),
        ("title", metadata.title or ""),
    )
    for number, (role, text) in enumerate(others):
        if text:
            yield Entry(
                place=count + number,
                message_index=None,
                message_id=None,
                role=role,
                model=metadata.model,
                timestamp=metadata.updated_at,
                text=text[:TEXT_LENGTH],
            )


def _text_of(message: Message) -> str:
    names = [attachment.name for attachment in message.attachments]
    text = message.content[:TEXT_LENGTH]
    return "\n".join([text, *names] if text else names)


def _summary_of(metadata: SessionMetadata) -> str:
    summary = metadata.summary or {}
    topics = summary.get("topics")
    texts = [summary.get("summary")]
    if isinstance(topics, Sequence) and not isinstance(topics, str):
        texts += topics
    return "\n".join(text for text in texts if isinstance(text, str))
