"""Makes and reads the ids of OpenAI's protocol, which locate their resources. Pure.

No table is needed: an id holds the session and what in it is meant. Items hold their session, too,
because clients send items back by id alone (``item_reference``, an approval) with no other word of
the conversation that they are from: the AI SDK does so unless it is told not to
(docs/decisions/0062).
"""

import re
from typing import Literal, NamedTuple

from sessions_app.ids_and_clock import SESSION_ID

TURN_ID = "[0-9a-f]{20}"

ItemKind = Literal["msg", "rs", "fc", "fco", "mcp", "mcpr"]
"""A text, a reasoning, a client's call, its output, a call of ours, a question for approval."""

_is_response_id = re.compile(f"resp_({SESSION_ID})({TURN_ID})", re.ASCII).fullmatch
_is_conversation_id = re.compile(f"conv_({SESSION_ID})", re.ASCII).fullmatch
_is_item_id = re.compile(f"(msg|rs|fc|fco|mcp|mcpr)_({SESSION_ID})(.+)", re.ASCII).fullmatch

_CONFIRMATION_PREFIX = "conf_"


class ResponseId(NamedTuple):
    """Names a response: a turn of a session."""

    session_id: str
    turn_id: str


class ItemId(NamedTuple):
    """Names an item: a message, a call or a question of a session.

    Attributes:
        kind: What the item shows.
        session_id: The session.
        name: The message's id; of ``fc`` and ``mcp`` the call's, of ``mcpr`` the confirmation's.
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
    """Return what a response's id names; None if it is none of ours."""
    match = _is_response_id(text)
    return None if match is None else ResponseId(match[1], match[2])


def conversation_id(session_id: str) -> str:
    """Return the id of a conversation."""
    return f"conv_{session_id}"


def read_conversation_id(text: str) -> str | None:
    """Return the session that a conversation's id names; None if it is none of ours."""
    match = _is_conversation_id(text)
    return None if match is None else match[1]


def item_id(kind: ItemKind, session_id: str, name: str) -> str:
    """Return the id of an item; see ``ItemId`` for its name."""
    if kind == "mcpr":
        name = name.removeprefix(_CONFIRMATION_PREFIX)
    return f"{kind}_{session_id}{name}"


def read_item_id(text: str) -> ItemId | None:
    """Return what an item's id names; None if it is none of ours."""
    match = _is_item_id(text)
    if match is None:
        return None
    kind: ItemKind = match[1]  # type: ignore[assignment]
    name = _CONFIRMATION_PREFIX + match[3] if kind == "mcpr" else match[3]
    return ItemId(kind, match[2], name)


def created_at(turn_id: str) -> int:
    """Return when a turn began, in seconds since 1970: its id begins with the milliseconds."""
    return int(turn_id[:12], 16) // 1000
