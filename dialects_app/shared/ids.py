"""Makes and reads the ids of OpenAI's protocol, which locate their resources. Pure.

No table is needed: an id contains the session and the resource in it. Ids of items contain the
session because clients refer to items by id only (``item_reference``, approvals), as the AI SDK
does by default (docs/decisions/0062).
"""

import re
from typing import Literal, NamedTuple

from sessions_app.ids_and_clock import SESSION_ID

TURN_ID = "[0-9a-f]{20}"

ItemKind = Literal["msg", "rs", "fc", "fco", "ctc", "ctco", "mcp", "mcpr"]
"""A text, a reasoning, a client's call, its output, the same of a custom tool, a call of ours, a
question for approval."""

_is_response_id = re.compile(f"resp_({SESSION_ID})({TURN_ID})", re.ASCII).fullmatch
_is_conversation_id = re.compile(f"conv_({SESSION_ID})", re.ASCII).fullmatch
_is_item_id = re.compile(f"(msg|rs|fco?|ctco?|mcpr?)_({SESSION_ID})(.+)", re.ASCII).fullmatch

_CONFIRMATION_PREFIX = "conf_"


class ResponseId(NamedTuple):
    """The parts of a response's id: a turn of a session."""

    session_id: str
    turn_id: str


class ItemId(NamedTuple):
    """The parts of an item's id: a message, a call or an approval request of a session.

    Attributes:
        kind: The kind of item.
        session_id: The session.
        name: The id of a message; for ``fc``, ``ctc`` and ``mcp`` of a call, for ``mcpr`` of a
            confirmation.
    """

    kind: ItemKind
    session_id: str
    name: str


def completion_id(turn_id: str) -> str:
    """Return the id of a chat completion."""
    return f"chatcmpl-{turn_id}"


def response_id(session_id: str, turn_id: str) -> str:
    """Return the id of a response."""
    return f"resp_{session_id}{turn_id}"


def read_response_id(text: str) -> ResponseId | None:
    """Parse a response id; None if it is not one of this server."""
    match = _is_response_id(text)
    return None if match is None else ResponseId(match[1], match[2])


def conversation_id(session_id: str) -> str:
    """Return the id of a conversation."""
    return f"conv_{session_id}"


def read_conversation_id(text: str) -> str | None:
    """Parse a conversation id and return the session id; None if it is not one of this server."""
    match = _is_conversation_id(text)
    return None if match is None else match[1]


def item_id(kind: ItemKind, session_id: str, name: str) -> str:
    """Return the id of an item; see ``ItemId`` for its name."""
    if kind == "mcpr":
        name = name.removeprefix(_CONFIRMATION_PREFIX)
    return f"{kind}_{session_id}{name}"


def read_item_id(text: str) -> ItemId | None:
    """Parse an item id; None if it is not one of this server."""
    match = _is_item_id(text)
    if match is None:
        return None
    kind: ItemKind = match[1]  # type: ignore[assignment]
    name = _CONFIRMATION_PREFIX + match[3] if kind == "mcpr" else match[3]
    return ItemId(kind, match[2], name)


def created_at(turn_id: str) -> int:
    """Return the start of a turn in seconds since 1970, from the milliseconds in its id."""
    return int(turn_id[:12], 16) // 1000
