"""Reads and writes the envelope of a session's object: revision and claim. Pure.

It follows ``metadata``, so that reading the beginning of an object suffices::

    "revision": "0f1e2d3c4b5a6978",                        new with every write
    "earlier": ["8796a5b4c3d2e1f0", ...],                  the revisions before, newest first
    "turn": {"id": ..., "worker": ..., "started_at": ..., "calls": [...]}    while a turn runs

A writer whose response got lost finds its revision there, even if others have written since.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from sessions_app.format.codec import to_json
from sessions_app.ids_and_clock import new_file_tag
from sessions_app.messages import NO_EXTRA
from sessions_app.session import Session
from sessions_app.store.repository import Claim

MOST_EARLIER = 8
"""The number of earlier revisions stored: so many writes by others may follow a lost response."""

_MESSAGES = b'\n  "messages": ['
_NAME = re.compile(r"[A-Za-z0-9-]{1,100}", re.ASCII)
_DELETED = b'{"deleted": '


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an object that is not the session.

    Attributes:
        revision: Identifies this write; empty in an object that was not written by this server.
        earlier: The previous revisions, newest first.
        claim: The claim of a turn, if any; whether it is alive is determined elsewhere.
    """

    revision: str = ""
    earlier: Sequence[str] = ()
    claim: Claim | None = None

    def followed_by(self, claim: Claim | None) -> "Envelope":
        """Return the envelope of the next write."""
        earlier = (self.revision, *self.earlier)[:MOST_EARLIER] if self.revision else ()
        return Envelope(revision=new_revision(), earlier=earlier, claim=claim)

    def is_of(self, revision: str) -> bool:
        """Return whether the write of this revision was applied."""
        return revision == self.revision or revision in self.earlier


def new_revision() -> str:
    """Return sixteen random hex digits."""
    return new_file_tag()


def opened(session: Session) -> tuple[Session, Envelope]:
    """Split a decoded object into its session and its envelope."""
    extra = dict(session.extra)
    revision, earlier, turn = (extra.pop(key, None) for key in ("revision", "earlier", "turn"))
    if len(extra) == len(session.extra):
        return session, Envelope()
    envelope = Envelope(
        revision=revision if isinstance(revision, str) else "",
        earlier=_texts(earlier),
        claim=_claim_of(turn, session.session_id),
    )
    return msgspec.structs.replace(session, extra=extra or NO_EXTRA), envelope


def enclosed(head: bytes, envelope: Envelope) -> bytes:
    """Insert an envelope into the beginning of a session's file, up to its messages."""
    at = head.index(_MESSAGES) + 1
    fields: dict[str, Any] = {"revision": envelope.revision, "earlier": envelope.earlier}
    if (claim := envelope.claim) is not None:
        fields["turn"] = {
            "id": claim.turn_id,
            "worker": claim.owner,
            "started_at": claim.started_at,
            "calls": claim.begun,
        }
    text = to_json(fields, readable=True).removeprefix(b"{\n").removesuffix(b"\n}\n")
    return b"%b%b,\n%b" % (head[:at], text, head[at:])


def tombstone(*, deleted_at: str) -> bytes:
    """Return the content that replaces a session just before its object is removed."""
    return b'%b"%b", "revision": "%b"}\n' % (
        _DELETED,
        deleted_at.encode(),
        new_revision().encode(),
    )


def is_tombstone(data: bytes) -> bool:
    """Return whether an object is a tombstone, about to be removed."""
    return data.startswith(_DELETED)


def buried_at(data: bytes) -> float:
    """Return when a tombstone was written, in seconds since 1970; 0 if unknown."""
    try:
        return datetime.fromisoformat(msgspec.json.decode(data)["deleted"]).timestamp()
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, ValueError):
        return 0.0


def _claim_of(turn: Any, session_id: str) -> Claim | None:
    """Return the claim in an object; ids are validated, since they are used in keys."""
    if turn is None:
        return None
    record: Mapping[str, Any] = turn if isinstance(turn, dict) else {}
    turn_id, owner = _name(record.get("id")), _name(record.get("worker"))
    started_at = record.get("started_at")
    return Claim(
        session_id=session_id,
        turn_id=turn_id,
        owner=owner,
        started_at=started_at if isinstance(started_at, str) else "",
        begun=_texts(record.get("calls")),
        is_known=bool(turn_id and owner),
    )


def _name(value: Any) -> str:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


def _texts(value: Any) -> Sequence[str]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
