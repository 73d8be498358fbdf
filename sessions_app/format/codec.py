"""Converts session files (JSON, format 1.3) to values and back. Pure.

Reading is generous and writing exact: older versions are migrated in memory (the file changes with
the next write only), newer ones keep their version, and unknown keys survive at every level
in the ``extra`` of their value (docs/decisions/0027).

``encode`` says what a file is; ``sessions_app.format.rewriting`` makes the same bytes for less.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import orjson

from sessions_app.context_state import ContextState
from sessions_app.decoding import decode_as
from sessions_app.errors import SessionCorrupt, ValidationFailed
from sessions_app.format.fields import Malformed, Raw, take
from sessions_app.format.layout import PLACEHOLDER, find_messages, outline_of, pieces_of
from sessions_app.format.message_format import messages_to_json, read_message
from sessions_app.format.messages import Piece, read_messages
from sessions_app.format.metadata import read_metadata
from sessions_app.format.to_json import metadata_to_json
from sessions_app.format.unread import Place, find_unread, without_note
from sessions_app.messages import NO_EXTRA, Message
from sessions_app.partly_read import PartlyRead, Unread, as_value
from sessions_app.session import FORMAT_VERSION, KNOWN_MAJOR, Session, SessionMetadata, counted
from sessions_app.surrogates import mend_json

NO_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of parsing what is no JSON."""

READABLE = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


class Decoded(NamedTuple):
    """The session that a file holds.

    Attributes:
        session: The session.
        messages_at: Where the messages' text begins and ends, if all of it may stay as it is when
            messages are appended.
    """

    session: Session
    messages_at: tuple[int, int] | None = None


def decode(data: bytes, session_id: str) -> Session:
    """Return the session that a file holds.

    The file's name is the session's id, whatever its metadata say; ``message_count`` and
    ``preview`` are taken from the messages. What older files lack (message ids, ids of tool calls)
    is made up, the same at every reading.

    Raises:
        SessionCorrupt: The bytes are no session; ``reason`` says why.
    """
    return decode_file(data, session_id).session


def decode_file(data: bytes, session_id: str, *, partly: bool = False) -> Decoded:
    """Return the session that a file holds, and where its messages stand; raises as ``decode``.

    Args:
        data: The file.
        session_id: The session.
        partly: Whether messages may be left to be read later that models are not sent.
    """
    try:
        found = _decode_in_pieces(data, session_id, partly=partly)
        return found or Decoded(_decode_whole(data, session_id))
    except Malformed as error:
        raise SessionCorrupt(session_id, _unknown_format(data) or str(error)) from error


def _unknown_format(data: bytes) -> str | None:
    """Return why a file can't be read that a newer server wrote; None for all others."""
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
    """Return the metadata from the beginning of a file, without reading its messages.

    None when that can't be done faithfully: the metadata are not first or not whole in ``head``,
    or lack what only our own writes put there (``preview``); then read the whole file.
    """
    text = head.decode("utf-8", errors="replace")
    start = text.find("{", text.find("{") + 1)
    if start < 0 or text[:start].split() not in (["{", '"metadata":'], ['{"metadata":']):
        return None
    try:
        raw, end = _first_object(text, start)
        # Surrogates are never escaped by us; half of a pair would spoil the whole listing.
        if not isinstance(raw.get("preview"), str) or "\\ud" in text[start:end].lower():
            return None
        return read_metadata(raw, session_id)
    except (ValueError, RecursionError, Malformed):
        return None


_HEAD_DECODER = json.JSONDecoder()
_END_OF_METADATA = "\n  }"


def _first_object(text: str, start: int) -> tuple[Any, int]:
    """Return the object that begins in a text, and where it ends.

    What is JSON from there to any place is that object. So it is tried where ours end, for a
    third of the time.
    """
    end = text.find(_END_OF_METADATA, start) + len(_END_OF_METADATA)
    try:
        return msgspec.json.decode(text[start:end]), end
    except msgspec.MsgspecError:
        return _HEAD_DECODER.raw_decode(text, start)


def _decode_in_pieces(data: bytes, session_id: str, *, partly: bool = False) -> Decoded | None:
    """Return the session of a file that is laid out as ours; None where it is not, or is broken.

    No call takes the interpreter for longer than a piece of JSON needs. Nothing is taken for JSON
    that is none: the outline is JSON with another list in the place of the messages, and every
    piece is a list of some messages without its brackets.
    """
    place = find_messages(data)
    if place is None:
        return None
    try:
        outline = read_outline(outline_of(data[: place[0]], data[place[1] :]), session_id)
        if outline is None:
            return None
        metadata, extra = outline
        read = partial(_read_pieces, data, session_id=session_id, created_at=metadata.created_at)
        messages, may_stay = (partly and _read_ends(data, read, place, metadata)) or read(
            *place, first=0
        )
        if partly and type(messages) is not PartlyRead:
            metadata = without_note(metadata)
    except (Malformed, *NO_JSON):
        return None
    session = counted(Session(metadata=metadata, messages=as_value(messages), extra=extra))
    return Decoded(session, place if may_stay else None)


def _read_ends(
    data: bytes, read: Callable[..., Piece], place: tuple[int, int], metadata: SessionMetadata
) -> tuple[PartlyRead, bool] | None:
    """Return the messages of which only the beginning and the end are read, as ``Piece`` does.

    None where all are to be read.
    """
    unread = find_unread(data, *place, metadata.context_state)
    if unread is None:
        return None
    head, head_may_stay = read(place[0], unread.start, first=0)
    tail, tail_may_stay = read(unread.end + 1, place[1], first=unread.behind)
    if len(head) != unread.first:
        return None
    run = unread_of(unread, lambda: data, metadata)
    return PartlyRead(tuple(head), run, tuple(tail)), head_may_stay and tail_may_stay


def unread_of(place: Place, load: Callable[[], bytes], metadata: SessionMetadata) -> Unread:
    """Return the messages at a place of a file, to be read when somebody asks for them.

    Args:
        place: Where they stand.
        load: Returns the file.
        metadata: The file's.
    """
    read = partial(
        _read_unread,
        state=place.state,
        session_id=metadata.session_id,
        created_at=metadata.created_at,
    )
    assert place.state.text is not None  # noqa: S101 - it is what tells of the place
    return Unread(
        place.behind - place.first,
        load,
        read,
        commas=place.state.text.commas,
        covers=(place.state.first_id, place.state.count),
        digest=place.state.digest,
    )


def _read_pieces(
    data: bytes, start: int, end: int, *, first: int, session_id: str, created_at: str
) -> Piece:
    """Return the messages of a part of the file, read in pieces."""
    messages: list[Message] = []
    may_stay = True
    for piece in pieces_of(data, start, end):
        found = read_messages(
            piece, first=first + len(messages), session_id=session_id, created_at=created_at
        )
        if not found.messages:
            raise Malformed("a piece holds no message")
        messages += found.messages
        may_stay &= found.may_stay
    return Piece(messages, may_stay)


def _read_unread(
    data: bytes, *, state: ContextState, session_id: str, created_at: str
) -> Sequence[Message]:
    """Return the messages that a state notes, from a file that holds them.

    Raises:
        SessionCorrupt: It holds others, or they can't be read.
    """
    place = find_messages(data)
    unread = place and find_unread(data, *place, state)
    if not unread:
        raise SessionCorrupt(session_id, "another program changed it just now")
    try:
        messages, _ = _read_pieces(
            data,
            unread.start + 1,
            unread.end,
            first=unread.first,
            session_id=session_id,
            created_at=created_at,
        )
    except (Malformed, *NO_JSON) as error:
        raise SessionCorrupt(session_id, str(error)) from error
    if len(messages) != unread.behind - unread.first:
        raise SessionCorrupt(session_id, "what is noted of its text is not so")
    return messages


def read_outline(
    outline: bytes, session_id: str
) -> tuple[SessionMetadata, Mapping[str, Any]] | None:
    """Return the metadata and the unknown keys of a file without its messages.

    None where the placeholder does not stand for them.

    Raises:
        Malformed: This is no session.
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: This is no JSON.
    """
    raw = msgspec.json.decode(outline)
    if not isinstance(raw, dict) or raw.pop("messages", None) != [PLACEHOLDER]:
        return None
    metadata = read_metadata(take(raw, "metadata", dict, ""), session_id)
    return metadata, raw or NO_EXTRA


def _decode_whole(data: bytes, session_id: str) -> Session:
    raw = _parse(data)
    metadata = read_metadata(take(raw, "metadata", dict, ""), session_id)
    messages = tuple(
        read_message(item, index, session_id, metadata.created_at)
        for index, item in enumerate(take(raw, "messages", list, ""))
    )
    return counted(Session(metadata=metadata, messages=messages, extra=raw or NO_EXTRA))


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
    """Return the file of a session: readable JSON, metadata first.

    Raises:
        ValidationFailed: Something in the session can't be written as JSON.
    """
    return to_json(document_of(session, messages_to_json(session.messages)), readable=True)


def document_of(session: Session, messages: Sequence[Any]) -> Raw:
    """Return a session as it stands in its file, with these JSON values as its messages."""
    return {
        "metadata": metadata_to_json(session.metadata),
        "messages": messages,
        **session.extra,
    }


def to_json(document: Mapping[str, Any], *, readable: bool = False) -> bytes:
    """Return JSON-compatible values as JSON, indented where people shall read it.

    Raises:
        ValidationFailed: Something can't be written as JSON.
    """
    try:
        # ``default`` is for read-only mappings, which orjson does not know.
        return orjson.dumps(document, default=dict, option=READABLE if readable else None)
    except TypeError:
        return _to_json_slowly(document, readable=readable)


def _to_json_slowly(document: Mapping[str, Any], *, readable: bool) -> bytes:
    """Encode what orjson refuses: integers beyond 64 bits, deep nesting, half a character."""
    try:
        try:
            data = msgspec.json.encode(document, enc_hook=dict)
        except UnicodeEncodeError:  # nothing that was said may be lost for a character
            data = msgspec.json.encode(mend_json(document), enc_hook=dict)
        return msgspec.json.format(data, indent=2) + b"\n" if readable else data
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValidationFailed(f"A value can't be written as JSON: {error}.") from error
