"""Declares the bodies of the inbox routes."""

from typing import Annotated, Any, Literal

import msgspec
from ninja import Schema
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt

from chat.inbox.service import QueuedMessage
from sessions_app.bounds import MOST_ITEMS
from sessions_app.http.attachments import AttachmentIn
from sessions_app.http.schemas import AttachmentOut, PauseReason
from sessions_app.http.wire_patterns import NOT_BLANK_PATTERN
from sessions_app.inbox import Inbox

_QUEUED: dict[str, Any] = {
    "message_id": "9f2c41d07e",
    "state": "queued",
    "when_busy": "queue",
    "position": 1,
}
_WAITING: dict[str, Any] = {
    "message_id": "9f2c41d07e",
    "content": "And in Italy?",
    "attachments": [],
    "when_busy": "queue",
    "queued_at": "2026-01-15T10:35:00.000000+00:00",
    "position": 1,
}


_HowItWaits = Annotated[
    str, Field(json_schema_extra={"enum": ["queue", "steer", "interrupt"]})
]  # no Literal: a later server's file may have other values


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank; delete the message instead")
    return text


class QueuedMessageOut(Schema):
    """A message that was queued, and where it is now."""

    message_id: str = Field(description="The id that the message has in the session, too")
    state: Literal["queued", "taken"] = Field(description="`taken`: a turn has it")
    when_busy: _HowItWaits | None = Field(None, description="How it waits, until it is taken")
    position: int | None = Field(None, description="From 1, until it is taken")
    turn_id: str | None = Field(None, description="The turn that took it")


class QueuedOut(Schema):
    """The answer to a message that waits: it is saved, and will be answered."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"session_id": "a1b2c3d4e5", "queued": _QUEUED}}
    )

    session_id: str
    queued: QueuedMessageOut

    @classmethod
    def of(cls, queued: QueuedMessage) -> "QueuedOut":
        """Return the body for a message."""
        message = QueuedMessageOut.model_validate(queued)
        return cls(session_id=queued.session_id, queued=message)


class InboxMessageOut(Schema):
    """A message that waits."""

    message_id: str
    content: str
    attachments: list[AttachmentOut]
    when_busy: _HowItWaits
    queued_at: str = Field(description="UTC, ISO 8601 with microseconds")
    position: int


class InboxErrorOut(Schema):
    """The error for which the next message could not be answered."""

    code: str
    message: str


class InboxOut(Schema):
    """The messages that wait for the next turns, in the order in which they are answered."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"paused": None, "error": None, "messages": [_WAITING]}}
    )

    paused: PauseReason | None = Field(
        description="Why nothing is answered: a turn was `cancelled`, or `failed`; null if it is"
    )
    error: InboxErrorOut | None = Field(
        description="Why no turn could begin with the next message; null otherwise"
    )
    messages: list[InboxMessageOut]

    @classmethod
    def of(cls, inbox: Inbox) -> "InboxOut":
        """Return the body for an inbox."""
        messages = [
            {**msgspec.structs.asdict(each), "position": position}
            for position, each in enumerate(inbox.messages, 1)
        ]
        return cls.model_validate(
            {"paused": inbox.paused, "error": inbox.error, "messages": messages}
        )


class InboxEditIn(BaseModel):
    """Changes of a message that waits; what is left out stays."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"content": "And in Spain?"}}
    )

    content: Annotated[str, AfterValidator(_not_blank)] | None = Field(
        None, description="The new text", json_schema_extra={"pattern": NOT_BLANK_PATTERN}
    )
    attachments: list[AttachmentIn] | None = Field(
        None, max_length=MOST_ITEMS, description="All files of the message from now on"
    )
    when_busy: Literal["queue", "steer", "interrupt"] | None = Field(
        None, description="How it waits from now on: `steer` and `interrupt` take effect at once"
    )
    position: Annotated[StrictInt, Field(ge=1)] | None = Field(
        None, description="The new place, as far as messages of its kind go"
    )
