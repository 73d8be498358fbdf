"""Defines what an archive of sessions holds, and where. Pure.

An archive is laid out as a data directory with the default places::

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
    """Return where a session is in an archive."""
    return f"chat_sessions/{session_id}.json"


def attachment_name(attachment_id: str) -> str:
    """Return where an attachment is in an archive."""
    digest = attachment_id.removeprefix(ID_PREFIX)
    return f"attachments/{digest[:2]}/{digest}"


def session_named(name: str) -> str | None:
    """Return the id of the session that has this name in an archive."""
    found = _SESSION.fullmatch(name)
    return found[1] if found else None


def attachment_named(name: str) -> str | None:
    """Return the id of the attachment that has this name in an archive."""
    found = _ATTACHMENT.fullmatch(name)
    return f"{ID_PREFIX}{found[2]}" if found else None


def attachments_of(session: Session) -> Sequence[Attachment]:
    """Return the references of a session's messages and of their variants, each file once."""
    return tuple({each.id: each for each in attachments_in(session.messages)}.values())
