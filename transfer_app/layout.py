"""Defines the layout of an archive of sessions. Pure.

It is that of a data directory with default paths::

    chat_sessions/0123456789.json    a session, as in its file
    attachments/9f/9f86d081...       the bytes of an attachment, named by their SHA-256

Names are compared with these two patterns and are never used as paths.
"""

import re
from collections.abc import Sequence

from sessions_app.attachments.references import attachments_in
from sessions_app.ids_and_clock import SESSION_ID
from sessions_app.messages import Attachment
from sessions_app.session import Session

ID_PREFIX = "sha256:"

_SESSION = re.compile(rf"chat_sessions/({SESSION_ID})\.json", re.ASCII)
_ATTACHMENT = re.compile(r"attachments/([0-9a-f]{2})/(\1[0-9a-f]{62})", re.ASCII)


def session_name(session_id: str) -> str:
    """Return the name of a session's file in an archive."""
    return f"chat_sessions/{session_id}.json"


def attachment_name(attachment_id: str) -> str:
    """Return the name of an attachment's file in an archive."""
    digest = attachment_id.removeprefix(ID_PREFIX)
    return f"attachments/{digest[:2]}/{digest}"


def session_named(name: str) -> str | None:
    """Return the id of the session with this name in an archive, or None."""
    found = _SESSION.fullmatch(name)
    return found[1] if found else None


def attachment_named(name: str) -> str | None:
    """Return the id of the attachment with this name in an archive, or None."""
    found = _ATTACHMENT.fullmatch(name)
    return f"{ID_PREFIX}{found[2]}" if found else None


def attachments_of(session: Session) -> Sequence[Attachment]:
    """Return the attachments of a session's messages and variants, without duplicates."""
    return tuple({each.id: each for each in attachments_in(session.messages)}.values())
