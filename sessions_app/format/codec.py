"""Converts session files (JSON, format 1.3) to values and back. Pure.

Reading is lenient and writing exact: older versions are migrated in memory (the file changes only
with the next write), newer ones keep their version, and unknown keys are preserved at every level
in the ``extra`` of their value (docs/decisions/0027).

``encode`` is the reference; ``sessions_app.format.rewriting`` produces the same bytes at less cost.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import orjson

from sessions_app.decoding import NO_JSON, decode_as
from sessions_app.errors import SessionCorrupt, ValidationFailed
from sessions_app.format.fields import Malformed, Raw, take
from sessions_app.format.layout import PLACEHOLDER, find_messages, outline_of, pieces_of
from sessions_app.format.message_format import messages_to_json, read_message
from sessions_app.format.messages import Piece, read_messages
from sessions_app.format.metadata import read_metadata
from sessions_app.format.to_json import metadata_to_json
from sessions_app.inbox import EMPTY_INBOX, inbox_from_json, inbox_to_json
from sessions_app.messages import NO_EXTRA, Message
from sessions_app.session import FORMAT_VERSION, KNOWN_MAJOR, Session, SessionMetadata, counted
from sessions_app.surrogates import mend_json

READABLE = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


class Decoded(NamedTuple):
    """A decoded session file.

    Attributes:
        session: The session.
        messages_at: The start and end offsets of the messages' text, if it can be reused unchanged
            when messages are appended.
    """

    session: Session
    messages_at: tuple[int, int] | None = None


def decode(data: bytes, session_id: str) -> Session:
    """Decode a session file.

    The session's id comes from the file's name, not from the metadata; ``message_count`` and
    ``preview`` are computed from the messages. Ids missing in older files (of messages and tool
    calls) are derived deterministically.

    Raises:
        SessionCorrupt: The bytes are not a valid session; ``reason`` says why.
    """
    return decode_file(data, session_id).session


def decode_file(data: bytes, session_id: str) -> Decoded:
    """Decode a session file and locate its messages; raises as ``decode``."""
    try:
        found = _decode_in_pieces(data, session_id)
        return found or Decoded(_decode_whole(data, session_id))
    except Malformed as error:
        raise SessionCorrupt(session_id, _unknown_format(data) or str(error)) from error


def _unknown_format(data: bytes) -> str | None:
    """Return why a file of a newer server can't be read; None for other files."""
    try:
        version = decode_as(data, _Outline).metadata.format_version
    except NO_JSON:
        return None
    if str(version).partition(".")[0] == KNOWN_MAJOR:
        return None
    return f"of format {str(version)[:40]}, which this server does not know"


class _Format(msgspec.Struct):
    format_version: str | int | float = FORMAT_VERSION


class _Outline(msgspec.Struct):
    metadata: _Format


def decode_head(head: bytes, session_id: str) -> SessionMetadata | None:
    """Decode the metadata from the beginning of a file, without its messages.

    Returns None if the whole file has to be read: the metadata are not first, not complete in
    ``head``, or lack ``preview``, as in files that this server did not write.
    """
    text = head.decode("utf-8", errors="replace")
    start = text.find("{", text.find("{") + 1)
    if start < 0 or text[:start].split() not in (["{", '"metadata":'], ['{"metadata":']):
        return None
    try:
        raw, end = _first_object(text, start)
        # This server never escapes surrogates; a lone one would make the whole listing invalid.
        if not isinstance(raw.get("preview"), str) or "\\ud" in text[start:end].lower():
            return None
        return read_metadata(raw, session_id)
    except (ValueError, RecursionError, Malformed):
        return None


_HEAD_DECODER = json.JSONDecoder()
_END_OF_METADATA = "\n  }"


def _first_object(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON object at an offset of a text, and its end.

    If the text from there to some position is valid JSON, it is that object. Trying the end that
    our layout has takes a third of the time.
    """
    end = text.find(_END_OF_METADATA, start) + len(_END_OF_METADATA)
    try:
        return msgspec.json.decode(text[start:end]), end
    except msgspec.MsgspecError:
        return _HEAD_DECODER.raw_decode(text, start)


def _decode_in_pieces(data: bytes, session_id: str) -> Decoded | None:
    """Decode a file in this server's layout; return None for other layouts and invalid files.

    No call holds the GIL for longer than one piece takes. Invalid JSON is never accepted: the
    outline must be valid JSON with a placeholder for the messages, and each piece a valid list of
    messages, once put in brackets.
    """
    place = find_messages(data)
    if place is None:
        return None
    try:
        outline = read_outline(outline_of(data[: place[0]], data[place[1] :]), session_id)
        if outline is None:
            return None
        metadata, extra = outline
        messages, may_stay = _read_pieces(data, *place, session_id, metadata.created_at)
    except (Malformed, *NO_JSON):
        return None
    session = session_of(metadata, messages, extra)
    return Decoded(session, place if may_stay else None)


def _read_pieces(data: bytes, start: int, end: int, session_id: str, created_at: str) -> Piece:
    """Decode the messages in pieces."""
    messages: list[Message] = []
    may_stay = True
    for piece in pieces_of(data, start, end):
        found = read_messages(
            piece, first=len(messages), session_id=session_id, created_at=created_at
        )
        if not found.messages:
            raise Malformed("a piece holds no message")
        messages += found.messages
        may_stay &= found.may_stay
    return Piece(messages, may_stay)


def read_outline(
    outline: bytes, session_id: str
) -> tuple[SessionMetadata, Mapping[str, Any]] | None:
    """Decode the metadata and the unknown keys from an outline.

    Returns None if the placeholder is not the only message.

    Raises:
        Malformed: The outline is not one of a session.
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: The outline is not valid JSON.
    """
    raw = msgspec.json.decode(outline)
    if not isinstance(raw, dict) or raw.pop("messages", None) != [PLACEHOLDER]:
        return None
    metadata = read_metadata(take(raw, "metadata", dict, ""), session_id)
    return metadata, raw or NO_EXTRA


def _decode_whole(data: bytes, session_id: str) -> Session:
    raw = _parse(data)
    metadata = read_metadata(take(raw, "metadata", dict, ""), session_id)
    messages = [
        read_message(item, index, session_id, metadata.created_at)
        for index, item in enumerate(take(raw, "messages", list, ""))
    ]
    return session_of(metadata, messages, raw)


def session_of(
    metadata: SessionMetadata, messages: Sequence[Message], others: Mapping[str, Any]
) -> Session:
    """Return the session with the other keys of its file; an inbox of another form is one."""
    inbox = EMPTY_INBOX
    if "inbox" in others:
        with suppress(msgspec.ValidationError):
            inbox = inbox_from_json(others["inbox"])
            others = {key: value for key, value in others.items() if key != "inbox"}
    session = Session(
        metadata=metadata, messages=tuple(messages), inbox=inbox, extra=others or NO_EXTRA
    )
    return counted(session)


def _parse(data: bytes) -> Raw:
    if not data.strip():
        raise Malformed("empty")
    if not data.strip(b"\0"):
        raise Malformed("filled with NUL bytes")
    try:
        # Not orjson, which turns integers beyond 64 bits into floats.
        raw = msgspec.json.decode(data)
    except NO_JSON as error:
        raise Malformed(f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise Malformed("not a JSON object")
    return raw


def encode(session: Session) -> bytes:
    """Encode a session as indented JSON, metadata first.

    Raises:
        ValidationFailed: A value in the session can't be encoded as JSON.
    """
    return to_json(document_of(session, messages_to_json(session.messages)), readable=True)


def document_of(session: Session, messages: Sequence[Any]) -> Raw:
    """Return a session's file as a JSON value, with these JSON values as its messages."""
    return {
        "metadata": metadata_to_json(session.metadata),
        "messages": messages,
        **session.extra,
        **({} if session.inbox.is_empty else {"inbox": inbox_to_json(session.inbox)}),
    }


def to_json(document: Mapping[str, Any], *, readable: bool = False) -> bytes:
    """Encode JSON-compatible values, indented if ``readable``.

    Raises:
        ValidationFailed: A value can't be encoded as JSON.
    """
    try:
        # ``default`` is for read-only mappings, which orjson does not support.
        return orjson.dumps(document, default=dict, option=READABLE if readable else None)
    except TypeError:
        return _to_json_slowly(document, readable=readable)


def _to_json_slowly(document: Mapping[str, Any], *, readable: bool) -> bytes:
    """Encode values that orjson refuses: integers beyond 64 bits, deep nesting, lone surrogates."""
    try:
        try:
            data = msgspec.json.encode(document, enc_hook=dict)
        except UnicodeEncodeError:  # a lone surrogate must not prevent saving a message
            data = msgspec.json.encode(mend_json(document), enc_hook=dict)
        return msgspec.json.format(data, indent=2) + b"\n" if readable else data
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValidationFailed(f"A value can't be written as JSON: {error}.") from error
