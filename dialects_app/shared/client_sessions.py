"""Finds the sessions of clients that choose their own names for conversations.

The session id is derived from the client's name, so that any worker of any node finds it without a
table, and two concurrent first requests use the same id.
"""

import hashlib
import re
from typing import NamedTuple

from sessions_app.errors import SessionNotFound, ValidationFailed
from sessions_app.ids_and_clock import ID_LENGTH, is_session_id
from sessions_app.service import SessionManager
from sessions_app.session import Session

NAME_PATTERN = "[A-Za-z0-9_-]{1,64}"
"""The names that clients may give: as a part of a path they need no escape."""

_MOST_PLACES = 8
"""Ids that are tried for one name, each taken by somebody else with a chance of one in 10^12."""

_is_name = re.compile(NAME_PATTERN, re.ASCII).fullmatch


class ClientSession(NamedTuple):
    """The session of a client's name.

    Attributes:
        session_id: Its id, even if it does not exist yet.
        session: The session; None if it does not exist.
        client_id: The name, for the metadata of a new session; None if the name is a session id.
    """

    session_id: str
    session: Session | None
    client_id: str | None = None


def find_session(sessions: SessionManager, name: str, *, field: str) -> ClientSession:
    """Return the session of a client's name, which may be a session id.

    Blocks.

    Args:
        sessions: The sessions.
        name: The client's name.
        field: The field name for errors.

    Raises:
        ValidationFailed: The name is invalid.
        SessionCorrupt, StorageError: The session can't be read.
    """
    if not _is_name(name):
        raise ValidationFailed(
            "It has 1 to 64 letters, digits, '_' and '-'.", field=field, pattern=NAME_PATTERN
        )
    if is_session_id(name):
        own = _load(sessions, name)
        if own is not None:
            return ClientSession(name, own)
    return session_named(sessions, name, field=field)


def session_named(sessions: SessionManager, name: str, *, field: str) -> ClientSession:
    """Return the session of a name of any form, as ``find_session`` does."""
    for place in range(_MOST_PLACES):
        session_id = session_id_of(name, place)
        found = _load(sessions, session_id)
        if found is None or found.metadata.client_id == name:
            return ClientSession(session_id, found, client_id=name)
    raise ValidationFailed("Choose another name: all ids for it are taken.", field=field)


def session_id_of(name: str, place: int = 0) -> str:
    """Return the id of the session for a client's name.

    Args:
        name: The name.
        place: The number of preceding ids that other sessions use.
    """
    text = name if not place else f"{name}\n{place}"
    return hashlib.sha256(f"client\n{text}".encode()).hexdigest()[:ID_LENGTH]


def _load(sessions: SessionManager, session_id: str) -> Session | None:
    try:
        return sessions.get(session_id)
    except SessionNotFound:
        return None
