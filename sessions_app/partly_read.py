"""Represents the messages of a long session with a lazily decoded middle. Pure.

A turn sends only the beginning and the end of such a session to the model; the context state leaves
the rest out. That stays undecoded until one of its messages is needed (docs/decisions/0098).
"""

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import final, overload

from sessions_app.messages import Message


class Unread:
    """A run of messages that is decoded on demand. Thread-safe.

    None of them is hidden or has attachments.

    Args:
        count: The number of messages.
        load: Returns the session's file.
        read: Decodes them from the file; raises ``SessionCorrupt`` if that fails or the file has
            other messages.
        commas: The offsets of the commas before and after them, relative to the start of the first
            message's text.
        covers: The id of the first message, and the length, of the left-out span around them.
        digest: The digest of that span (``digest_of``).
    """

    def __init__(
        self,
        count: int,
        load: Callable[[], bytes],
        read: Callable[[bytes], Sequence[Message]],
        *,
        commas: tuple[int, int],
        covers: tuple[str, int],
        digest: str,
    ) -> None:
        self.count = count
        self.commas = commas
        self.covers = covers
        self.digest = digest
        self._load = load
        self._read = read
        self._messages: Sequence[Message] | None = None

    @property
    def is_read(self) -> bool:
        """Return whether they are decoded."""
        return self._messages is not None

    def messages(self) -> Sequence[Message]:
        """Return the messages, decoding them at the first call."""
        if self._messages is None:
            self._messages = self._read(self._load())
        return self._messages

    def leave_to(self, load: Callable[[], bytes]) -> None:
        """Replace the loader, so that the text need not stay in memory."""
        self._load = load


@final
class PartlyRead(Sequence[Message]):
    """Messages of which a run in the middle is decoded on demand.

    Equal to any sequence of the same messages. Check for it with ``type()``: ``isinstance`` with an
    abstract class runs in Python, and a turn checks a dozen times.

    Args:
        head: The messages before the run.
        unread: The run.
        tail: The messages after the run.
    """

    def __init__(self, head: Sequence[Message], unread: Unread, tail: tuple[Message, ...]) -> None:
        self.head = head
        self.unread = unread
        self.tail = tail
        self._tail_at = len(head) + unread.count

    def __len__(self) -> int:
        return self._tail_at + len(self.tail)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        if isinstance(at, slice):
            return self._slice(at)
        index = at + len(self) if at < 0 else at
        if 0 <= index < len(self.head):
            return self.head[index]
        if self._tail_at <= index < len(self):
            return self.tail[index - self._tail_at]
        return self.whole()[at]

    def __iter__(self) -> Iterator[Message]:
        yield from self.head
        yield from self.unread.messages()
        yield from self.tail

    def __reversed__(self) -> Iterator[Message]:
        yield from reversed(self.tail)
        yield from reversed(self.unread.messages())
        yield from reversed(self.head)

    def __eq__(self, other: object) -> bool:
        if type(other) is PartlyRead and other.unread is self.unread:
            return self.head == other.head and self.tail == other.tail
        return isinstance(other, Sequence) and self.whole() == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def whole(self) -> tuple[Message, ...]:
        """Return all messages."""
        return (*self.head, *self.unread.messages(), *self.tail)

    def read(self) -> Sequence[Message]:
        """Return the messages decoded at the start: the head and the tail."""
        return (*self.head, *self.tail)

    def followed_by(self, messages: Sequence[Message]) -> "PartlyRead":
        """Append messages."""
        return PartlyRead(self.head, self.unread, (*self.tail, *messages))

    def shown(self) -> "PartlyRead":
        """Return the messages that are not hidden from models."""
        head, tail = shown(self.head), shown(self.tail)
        if head is self.head and tail is self.tail:
            return self
        return PartlyRead(head, self.unread, tuple(tail))

    def in_common(self, other: Sequence[Message]) -> int | None:
        """Return the length of the common prefix, by identity.

        Returns None if that would need decoding.
        """
        if type(other) is not PartlyRead or other.unread is not self.unread:
            return None
        if other.head is not self.head:
            return None
        same = [*map(is_, self.tail, other.tail)]
        return self._tail_at + (same.index(False) if False in same else len(same))

    def digest_of(self, span: range) -> str | None:
        """Return the digest of a span of these messages; None if that would need decoding."""
        if not (span.start < len(self.head) and self._tail_at <= span.stop):
            return None
        covers = self.head[span.start].message_id, len(span)
        return self.unread.digest if covers == self.unread.covers else None

    def _slice(self, at: slice) -> Sequence[Message]:
        start, stop, step = at.indices(len(self))
        if step == 1 and stop <= len(self.head):
            return self.head[start:stop]
        if step == 1 and start >= self._tail_at:
            return self.tail[start - self._tail_at : max(stop - self._tail_at, 0)]
        if step == 1 and start == 0 and stop >= self._tail_at:
            return PartlyRead(self.head, self.unread, self.tail[: stop - self._tail_at])
        return self.whole()[at]


def followed_by(messages: Sequence[Message], new: Sequence[Message]) -> Sequence[Message]:
    """Append messages without decoding any."""
    if type(messages) is PartlyRead:
        return messages.followed_by(new)
    return (*messages, *new)


def as_value(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages as an immutable sequence, as stored in a session."""
    return messages if type(messages) is PartlyRead else tuple(messages)


def as_far_as_read(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages without those not decoded yet."""
    return messages.read() if type(messages) is PartlyRead else messages


def shown(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages that are not hidden from models."""
    if type(messages) is PartlyRead:
        return messages.shown()
    found = [message for message in messages if not message.hidden]
    return messages if len(found) == len(messages) else found
