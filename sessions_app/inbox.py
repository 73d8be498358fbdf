"""Declares a session's inbox: messages that wait for the next turn. Pure.

It is part of the session's document, so that taking a message out and claiming the session for its
turn is one write (docs/decisions/0176).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from sessions_app.decoding import convert_to
from sessions_app.errors import (
    InboxFull,
    QueuedMessageNotFound,
    QueuedMessageTooLong,
    ValidationFailed,
)
from sessions_app.messages import NO_EXTRA, Attachment

MOST_MESSAGES = 20
MOST_BYTES = 256 * 1024
"""The limit of an inbox's messages as JSON, with the requests they came with."""

WhenBusy = Literal["refuse", "queue", "steer", "interrupt"]
"""The ways to deal with a message while a turn runs."""

_ORDER: Sequence[str] = ("interrupt", "steer", "queue")


class InboxMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A user's message that waits.

    Attributes:
        message_id: The id that the message will have in the session.
        content: The text.
        attachments: The images and files.
        when_busy: ``interrupt``, ``steer`` or ``queue``; a later server may know others.
        queued_at: When it was queued (UTC, ISO 8601 with microseconds).
        request: What the request asks for besides the message, as JSON.
        turn_id: The turn that took it, as long as it may be returned.
        attempts: How many turns took it, and died before they had said anything.
        extra: Unknown keys of the file, kept for the next write.
    """

    message_id: str
    content: str
    attachments: tuple[Attachment, ...] = ()
    when_busy: str = "queue"
    queued_at: str
    request: Mapping[str, Any] = NO_EXTRA
    turn_id: str | None = None
    attempts: int = 0
    extra: Mapping[str, Any] = NO_EXTRA


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """The messages that wait, in the order in which they are taken.

    Interrupting messages are first, then steering ones, then the others; of each kind, the oldest.

    Attributes:
        paused: Why no message is taken for a turn (``cancelled``, ``failed``); None if they are.
        error: The error for which the next message could not be answered, as ``code`` and
            ``message``; None unless that is why they are paused.
        messages: The messages.
        taken: The message that a turn took, until the turn writes for the first time: if it dies
            before that, and nobody has seen anything of it, the message is returned.
        extra: Unknown keys of the file, kept for the next write.
    """

    paused: str | None = None
    error: Mapping[str, Any] | None = None
    messages: tuple[InboxMessage, ...] = ()
    taken: InboxMessage | None = None
    extra: Mapping[str, Any] = NO_EXTRA

    @property
    def next(self) -> InboxMessage | None:
        """The message that the next turn takes; None if there is none, or the inbox is paused."""
        return self.messages[0] if self.messages and self.paused is None else None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing waits, and nothing may be returned."""
        return not self.messages and self.taken is None

    @property
    def steers(self) -> Sequence[InboxMessage]:
        """The messages that a running turn takes before its next model call."""
        return [each for each in self.messages if each.when_busy == "steer"]

    def find(self, message_id: str) -> InboxMessage | None:
        """Return a message, or None."""
        return next((each for each in self.messages if each.message_id == message_id), None)

    def position_of(self, message_id: str) -> int:
        """Return the position of a message, from 1.

        Raises:
            QueuedMessageNotFound: It does not wait here.
        """
        for position, each in enumerate(self.messages, 1):
            if each.message_id == message_id:
                return position
        raise QueuedMessageNotFound(message_id)

    def append(self, message: InboxMessage) -> "Inbox":
        """Add a message behind those of its kind, and resume.

        Raises:
            InboxFull: There are too many messages, or they are too long together.
            QueuedMessageTooLong: The message alone is too long.
        """
        return _with_room(self._with((*self.messages, message), paused=None))

    def take(self, *message_ids: str) -> "Inbox":
        """Remove messages; those that are not there any more are ignored."""
        rest = [each for each in self.messages if each.message_id not in message_ids]
        return self._with(rest, paused=self.paused if rest else None)

    def begin(self, message: InboxMessage, turn_id: str) -> "Inbox":
        """Take a message for a turn that begins with it, and remember it until the turn writes."""
        attempts = message.attempts + 1
        taken = msgspec.structs.replace(message, turn_id=turn_id, attempts=attempts)
        return msgspec.structs.replace(self.take(message.message_id), taken=taken)

    def settle(self, *, returned: bool) -> "Inbox":
        """Forget the message that a turn took, or return it to the front of those of its kind."""
        settled = msgspec.structs.replace(self, taken=None)
        if self.taken is None or not returned:
            return settled
        back = msgspec.structs.replace(self.taken, turn_id=None)
        return settled._with((back, *settled.messages), paused=self.paused)  # noqa: SLF001 - its own

    def edit(self, message_id: str, **changes: Any) -> "Inbox":
        """Change fields of a message.

        Raises:
            QueuedMessageNotFound: It does not wait here.
            ValidationFailed: It would have neither a text nor a file.
            InboxFull, QueuedMessageTooLong: The messages would be too long together, or it alone.
        """
        at = self.position_of(message_id) - 1
        changed = msgspec.structs.replace(self.messages[at], **changes)
        if not changed.content.strip() and not changed.attachments:
            raise ValidationFailed(
                "A message needs a text or a file: delete it instead.",
                field="attachments" if "attachments" in changes else "content",
            )
        messages = [*self.messages[:at], changed, *self.messages[at + 1 :]]
        return _with_room(self._with(messages, paused=self.paused))

    def move(self, message_id: str, position: int) -> "Inbox":
        """Move a message to a position (from 1), as far as those of its kind go.

        Raises:
            QueuedMessageNotFound: It does not wait here.
        """
        at = self.position_of(message_id) - 1
        rest = [*self.messages[:at], *self.messages[at + 1 :]]
        rest.insert(min(max(position, 1) - 1, len(rest)), self.messages[at])
        return self._with(rest, paused=self.paused)

    def pause(self, reason: str, error: Mapping[str, Any] | None = None) -> "Inbox":
        """Take no more messages; nothing changes if there are none."""
        if not self.messages:
            return self
        return msgspec.structs.replace(self, paused=reason, error=error)

    def resume(self) -> "Inbox":
        """Take messages again."""
        return msgspec.structs.replace(self, paused=None, error=None)

    def _with(self, messages: Sequence[InboxMessage], *, paused: str | None) -> "Inbox":
        ordered = tuple(sorted(messages, key=_order))
        error = self.error if paused else None
        return msgspec.structs.replace(self, messages=ordered, paused=paused, error=error)


EMPTY_INBOX = Inbox()

Value = TypeVar("Value", Inbox, InboxMessage)


def inbox_to_json(inbox: Inbox) -> dict[str, Any]:
    """Convert an inbox to its JSON value in files."""
    messages = [_to_json(each) for each in inbox.messages]
    taken = {} if inbox.taken is None else {"taken": _to_json(inbox.taken)}
    error = {} if inbox.error is None else {"error": dict(inbox.error)}
    return {"paused": inbox.paused, **error, "messages": messages, **taken, **inbox.extra}


def inbox_from_json(raw: Any) -> Inbox:
    """Convert an inbox from its JSON value.

    Raises:
        msgspec.ValidationError: It is none that this server knows.
    """
    document = convert_to(raw, dict[str, Any])
    inbox, taken = _from_json(document, Inbox), document.get("taken")
    return msgspec.structs.replace(
        inbox,
        messages=tuple(_from_json(each, InboxMessage) for each in document.get("messages", ())),
        taken=None if taken is None else _from_json(taken, InboxMessage),
    )


def _with_room(inbox: Inbox) -> Inbox:
    """Return the inbox; raise ``InboxFull`` if it holds more than it may."""
    sizes = [len(msgspec.json.encode(each, enc_hook=dict)) for each in inbox.messages]
    if any(size > MOST_BYTES for size in sizes):
        raise QueuedMessageTooLong(MOST_BYTES)
    if len(sizes) > MOST_MESSAGES or sum(sizes) > MOST_BYTES:
        raise InboxFull(MOST_MESSAGES, MOST_BYTES)
    return inbox


def _to_json(message: InboxMessage) -> dict[str, Any]:
    fields = msgspec.to_builtins(msgspec.structs.replace(message, extra=NO_EXTRA), enc_hook=dict)
    fields.pop("extra", None)
    return {**fields, **message.extra}


def _from_json(raw: dict[str, Any], kind: type[Value]) -> Value:
    known = kind.__struct_fields__[:-1]
    value = convert_to({name: raw[name] for name in known if name in raw}, kind)
    extra = {name: other for name, other in raw.items() if name not in known}
    return msgspec.structs.replace(value, extra=extra or NO_EXTRA)


def _order(message: InboxMessage) -> int:
    return _ORDER.index(message.when_busy) if message.when_busy in _ORDER else len(_ORDER)
