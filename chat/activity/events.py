"""Declares every event of the stream of changes, once (docs/events.md)."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from chat.storage.change_log import Change

ListedSession = Annotated[
    Mapping[str, Any],
    msgspec.Meta(
        description="The session as `GET /sessions` lists it, by the time of the event",
        extra_json_schema={"$ref": "#/components/schemas/ListedSessionOut"},
    ),
]


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """Load the list again: earlier changes are not known, or a session can't be read any more."""

    event: ClassVar[str] = "reset"


class SessionCreated(msgspec.Struct, frozen=True, kw_only=True):
    """There is a new session."""

    event: ClassVar[str] = "session_created"
    session_id: str
    session: ListedSession


class SessionChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a session is different: its title, its messages, its state."""

    event: ClassVar[str] = "session_changed"
    session_id: str
    session: ListedSession


class SessionDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A session is gone; it may be said twice."""

    event: ClassVar[str] = "session_deleted"
    session_id: str


class _TurnChanged(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    turn_id: str
    session: ListedSession


class SessionTurnStarted(_TurnChanged, frozen=True, kw_only=True):
    """A turn has begun."""

    event: ClassVar[str] = "turn_started"


class SessionTurnWaiting(_TurnChanged, frozen=True, kw_only=True):
    """A turn waits for a person's approval, or was suspended until there is one."""

    event: ClassVar[str] = "turn_waiting"


class SessionTurnEnded(_TurnChanged, frozen=True, kw_only=True):
    """A turn has ended, however that was."""

    event: ClassVar[str] = "turn_ended"


class McpLoginChanged(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server needs a login, somebody begins one, or it is over: load the servers again."""

    event: ClassVar[str] = "mcp_login"
    server: str


ActivityEvent = (
    Reset
    | SessionCreated
    | SessionChanged
    | SessionDeleted
    | SessionTurnStarted
    | SessionTurnWaiting
    | SessionTurnEnded
    | McpLoginChanged
)

ACTIVITY_EVENTS: tuple[type[ActivityEvent], ...] = ActivityEvent.__args__

_OF_TURNS: Mapping[str, type[SessionTurnStarted | SessionTurnWaiting | SessionTurnEnded]] = {
    "turn_started": SessionTurnStarted,
    "turn_waiting": SessionTurnWaiting,
    "turn_ended": SessionTurnEnded,
}


def event_of(change: Change, listed: Mapping[str, Any] | Reset | None) -> ActivityEvent:
    """Return the event that tells of a change.

    Args:
        change: The change, of a known kind.
        listed: The session as lists have it now; None if it is gone, ``Reset`` if only the list can
            say how it is.
    """
    session_id, kind = change.session_id, change.kind
    if kind == "mcp_login":
        return McpLoginChanged(server=change.turn_id)
    if listed is None or kind == "deleted":
        return SessionDeleted(session_id=session_id)
    if isinstance(listed, Reset):
        return listed
    if kind in _OF_TURNS:
        return _OF_TURNS[kind](session_id=session_id, turn_id=change.turn_id, session=listed)
    if kind == "created":
        return SessionCreated(session_id=session_id, session=listed)
    return SessionChanged(session_id=session_id, session=listed)
