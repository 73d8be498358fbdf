"""Makes index entries from objects and converts them to and from JSON. Pure."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from sessions_app.decoding import NO_JSON, convert_to, decode_as
from sessions_app.errors import SessionCorrupt
from sessions_app.format.codec import decode, decode_head, to_json
from sessions_app.format.fields import Malformed
from sessions_app.format.metadata import read_metadata
from sessions_app.format.to_json import metadata_to_json
from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Claim, Found, Unreadable

SUFFIX = ".json"
_KEYS = json.JSONDecoder()
_BLANK = " \t\r\n,:"


class Indexed(msgspec.Struct, frozen=True, kw_only=True):
    """The index entry of an object: its ETag, what listings show, and its claim."""

    etag: str
    found: Found
    claim: Claim | None = None


class _Turn(msgspec.Struct):
    id: str = ""
    worker: str = ""
    started_at: str = ""


class _Entry(msgspec.Struct):
    etag: str
    metadata: dict[str, Any] | None = None
    reason: str | None = None
    turn: _Turn | None = None


def to_entry(indexed: Indexed) -> bytes:
    """Encode an entry as JSON."""
    entry: dict[str, Any] = {"etag": indexed.etag}
    if isinstance(indexed.found, SessionMetadata):
        entry["metadata"] = metadata_to_json(indexed.found)
    else:
        entry["reason"] = indexed.found.reason
    if (claim := indexed.claim) is not None:
        entry["turn"] = {
            "id": claim.turn_id,
            "worker": claim.owner,
            "started_at": claim.started_at,
        }
    return to_json(entry)


def from_entry(data: bytes, session_id: str) -> Indexed | None:
    """Decode an entry; return None if it is invalid and the object has to be read."""
    try:
        entry = decode_as(data, _Entry)
        found: Found = Unreadable(file=session_id + SUFFIX, reason=entry.reason or "")
        if entry.metadata is not None:
            found = read_metadata(entry.metadata, session_id)
        elif entry.reason is None:
            return None
    except (Malformed, *NO_JSON):
        return None
    return Indexed(etag=entry.etag, found=found, claim=_claim(entry.turn, session_id))


def from_head(head: bytes, session_id: str, etag: str) -> Indexed | None:
    """Make an entry from the beginning of an object; return None if that is not enough."""
    metadata = decode_head(head, session_id)
    if metadata is None:
        return None
    try:
        claim = _claim(_turn_before_messages(head), session_id)
    except (ValueError, RecursionError):
        return None
    return Indexed(etag=etag, found=metadata, claim=claim)


def from_whole(data: bytes, session_id: str, etag: str) -> Indexed:
    """Make an entry from a whole object."""
    try:
        found: Found = decode(data, session_id).metadata
    except SessionCorrupt as error:
        return unreadable(session_id, error.reason, etag)
    turn = None
    with suppress(*NO_JSON):  # not written by this server, so there is no claim
        turn = decode_as(data, _Claimed).turn
    return Indexed(etag=etag, found=found, claim=_claim(turn, session_id))


def unreadable(session_id: str, reason: str, etag: str) -> Indexed:
    """Make the entry of an object that can't be read as a session."""
    return Indexed(etag=etag, found=Unreadable(file=session_id + SUFFIX, reason=reason))


class _Claimed(msgspec.Struct):
    turn: _Turn | None = None


def _turn_before_messages(head: bytes) -> _Turn | None:
    """Return the claim from the beginning of an object, which has it before the messages.

    Raises:
        ValueError: The beginning is too short.
    """
    for key, value in _pairs(head.decode("utf-8", errors="replace")):
        if key == "turn":
            return convert_to(value, _Turn | None)
    return None


def _pairs(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of a JSON object up to its messages."""
    at = text.index("{") + 1
    while True:
        key, at = _KEYS.raw_decode(text, _next(text, at))
        if key == "messages":
            return
        value, at = _KEYS.raw_decode(text, _next(text, at))
        yield key, value


def _next(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _BLANK:
        at += 1
    return at


def _claim(turn: _Turn | None, session_id: str) -> Claim | None:
    if turn is None:
        return None
    return Claim(
        session_id=session_id, turn_id=turn.id, owner=turn.worker, started_at=turn.started_at
    )
