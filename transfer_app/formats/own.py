"""Reads sessions of this server, and of programs that write the same files. Pure."""

from collections.abc import Mapping
from typing import Any

from sessions_app.errors import SessionCorrupt, ValidationFailed
from sessions_app.format.codec import decode, to_json
from sessions_app.ids_and_clock import is_session_id
from sessions_app.session import Session
from transfer_app.formats.conversation import UnusableEntry
from transfer_app.formats.values import as_object, as_text

SOURCE = "mochi"


def recognises(entry: Mapping[str, Any]) -> bool:
    """Return whether this is a session in our format."""
    return "session_id" in as_object(entry.get("metadata"))


def parse(entry: Mapping[str, Any], *, all_branches: bool = False) -> Session:  # noqa: ARG001 - it has one
    """Return the session in an entry.

    Raises:
        UnusableEntry: The entry is not a session, or its id is invalid.
    """
    session_id = as_text(as_object(entry.get("metadata")).get("session_id"))
    if not is_session_id(session_id):
        raise UnusableEntry("its session_id is none")
    try:
        return decode(to_json(entry), session_id)
    except SessionCorrupt as error:
        raise UnusableEntry(f"it can't be read as a session: {error.reason}") from error
    except ValidationFailed as error:
        raise UnusableEntry(error.message) from error
