"""Locates the part of a long session's file that a turn need not decode (docs/decisions/0098).

The messages that a session's context state leaves out are not sent to models. Once all of them were
read, the state notes the position and digest of their text. As long as the file has the same text
there, they are the same messages. Pure.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from sessions_app.context_state import ContextState, ReadText, digest_of
from sessions_app.decoding import NO_JSON
from sessions_app.format.fields import Malformed
from sessions_app.format.layout import comma_before, comma_behind
from sessions_app.format.messages import read_messages
from sessions_app.messages import Message, UserMessage
from sessions_app.session import Session, SessionMetadata

LEAST_TEXT = 256 * 1024
"""The minimum bytes worth skipping: fewer are decoded in a millisecond."""

MOST_HEAD = 1024
"""The maximum number of messages before the skipped ones."""

TAIL = 320
"""The number of last messages always decoded: turns estimate token counts from so many."""


class UnreadSpan(NamedTuple):
    """The place in a file of the messages that need not be decoded.

    Attributes:
        start: The offset of the comma before their text.
        end: The offset of the comma after their text.
        first: The index of the first message.
        behind: The index of the message after the last one.
        state: The context state that leaves them out.
    """

    start: int
    end: int
    first: int
    behind: int
    state: ContextState


def find_unread(data: bytes, start: int, end: int, state: ContextState | None) -> UnreadSpan | None:
    """Locate the messages that need not be decoded; return None if all must be.

    Args:
        data: The file.
        start: The start offset of the messages' text.
        end: The end offset of the messages' text.
        state: The context state of the file.
    """
    if state is None or state.text is None:
        return None
    known = state.text
    (first, behind), (before, after) = known.messages, known.commas
    if not (0 < first < behind and 0 < before < after < known.length <= end - start):
        return None
    text = memoryview(data)[start : start + known.length]
    if hashlib.sha256(text).hexdigest() != known.sha256:
        return None
    return UnreadSpan(start + before, start + after, first, behind, state)


def noted(session: Session, file: Session, data: bytes, messages_at: tuple[int, int]) -> Session:
    """Return the session with a note of its text in the context state, if that is of use.

    Args:
        session: The session to be written.
        file: The session decoded from its whole file.
        data: The file.
        messages_at: The start and end offsets of the file's messages.
    """
    state = session.metadata.context_state
    start, end = messages_at
    if state is None or not state.count or state.text is not None or end - start < LEAST_TEXT:
        return session
    text = _text_of(state, file.messages, data, start, end)
    if text is None:
        return session
    state = msgspec.structs.replace(state, text=text)
    metadata = msgspec.structs.replace(session.metadata, context_state=state)
    return msgspec.structs.replace(session, metadata=metadata)


def without_note(metadata: SessionMetadata) -> SessionMetadata:
    """Return metadata without a note that does not match; the next write makes a new one."""
    state = metadata.context_state
    if state is None or state.text is None:
        return metadata
    state = msgspec.structs.replace(state, text=None)
    return msgspec.structs.replace(metadata, context_state=state)


def _text_of(
    state: ContextState, messages: Sequence[Message], data: bytes, start: int, end: int
) -> ReadText | None:
    """Return the note of the text of the messages that a state leaves out."""
    found = _places(state, messages)
    if found is None:
        return None
    unread, stop = found
    whole = comma_before(data, start, end, messages=len(messages) - stop)
    after = comma_before(data, start, whole or 0, messages=stop - unread.stop)
    before = comma_behind(data, start, end, messages=unread.start)
    if whole is None or after is None or before is None or after - before < LEAST_TEXT:
        return None
    borders = ((before, unread.start), (after, unread.stop))
    if not all(_is_followed_by(data, at, end, messages[index]) for at, index in borders):
        return None
    return ReadText(
        length=whole - start,
        sha256=hashlib.sha256(memoryview(data)[start:whole]).hexdigest(),
        messages=(unread.start, unread.stop),
        commas=(before - start, after - start),
    )


def _places(state: ContextState, messages: Sequence[Message]) -> tuple[range, int] | None:
    """Return the indexes of messages to skip, and the end index of those the state leaves out."""
    places = [at for at, message in enumerate(messages) if not message.hidden]
    first = next((n for n, at in enumerate(places) if messages[at].message_id == state.first_id), 0)
    span = places[first : first + state.count]
    first_user = next(
        (at for at, m in enumerate(messages) if isinstance(m, UserMessage)), MOST_HEAD
    )
    if len(span) != state.count or span[-1] + 1 >= len(messages):
        return None
    unread = range(max(span[0], first_user) + 1, min(span[-1], len(messages) - TAIL))
    if not unread or unread.start > MOST_HEAD:
        return None
    if any(
        message.hidden or message.attachments for message in messages[unread.start : unread.stop]
    ):
        return None
    left_out = [messages[at] for at in span]
    if left_out[-1].message_id != state.last_id or digest_of(left_out) != state.digest:
        return None
    return unread, span[-1] + 1


def _is_followed_by(data: bytes, comma: int, end: int, message: Message) -> bool:
    """Return whether the text after a comma begins with this message."""
    stop = comma_behind(data, comma + 1, end, messages=1) or end
    try:
        found, _ = read_messages(data[comma + 1 : stop], first=0, session_id="", created_at="")
    except (Malformed, *NO_JSON):
        return False
    return found == [message]
