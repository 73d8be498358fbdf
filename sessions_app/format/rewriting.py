"""Encodes a changed session by reusing the unchanged part of its file. Pure.

Messages are immutable, so their text does not change: messages that were read from a file are
written by copying their text from that file, without encoding or decoding them again.
"""

from collections.abc import Iterator, Sequence
from operator import is_

import msgspec
import orjson

from sessions_app.decoding import NO_JSON
from sessions_app.format.codec import (
    READABLE,
    decode_file,
    document_of,
    encode,
    read_outline,
    session_of,
)
from sessions_app.format.fields import Malformed
from sessions_app.format.json_pieces import in_pieces
from sessions_app.format.layout import (
    PIECE,
    PLACEHOLDER,
    PLACEHOLDER_LINE,
    comma_before,
    outline_of,
)
from sessions_app.format.messages import read_messages, texts_of
from sessions_app.messages import Message
from sessions_app.session import Session

Part = bytes | memoryview
"""A part of a file to be written."""

_BETWEEN = b",\n"
"""The bytes between two messages."""


class SessionFile(msgspec.Struct, frozen=True, eq=False):
    """A session and the bytes of its file.

    Attributes:
        session: The decoded session.
        data: The bytes of the file.
        messages_at: The start and end offsets of the messages' text in ``data``, if reusable.
        uncut: The number of first messages that this process did not write: their text can be
            reused only as a whole, as the offsets between them are unknown.
    """

    session: Session
    data: bytes
    messages_at: tuple[int, int] | None = None
    uncut: int = 0

    @classmethod
    def of(cls, data: bytes, session_id: str) -> "SessionFile":
        """Decode a file; same errors as ``decode_file``."""
        session, messages_at = decode_file(data, session_id)
        return cls(session, data, messages_at, len(session.messages))

    def text_of(self, count: int) -> memoryview | None:
        """Return the text of the first ``count`` messages; None if it can't be reused."""
        left_out = len(self.session.messages) - count
        if self.messages_at is None or not count or (left_out and count <= self.uncut):
            return None
        start, end = self.messages_at
        stop = comma_before(self.data, start, end, messages=left_out)
        return None if stop is None else memoryview(self.data)[start:stop]


class Rewrite(msgspec.Struct, frozen=True, eq=False):
    """A session's encoded file, in parts, before it is written.

    Attributes:
        parts: The parts; the first and the last are the bytes before and after the messages.
        known: The first messages, decoded from an earlier file.
        new: The encoded text of the other messages.
        uncut: As in ``SessionFile``.
    """

    parts: Sequence[Part]
    known: Sequence[Message] = ()
    new: Sequence[bytes] = ()
    uncut: int = 0

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return sum(map(len, self.parts))

    def joined(self) -> bytes:
        """Return the whole file."""
        return b"".join(self.parts)

    def pieces(self) -> Iterator[Part]:
        """Yield the parts, small ones joined; large ones are not copied, which would take long."""
        for parts in in_pieces(self.parts, len):
            yield parts[0] if len(parts) == 1 else b"".join(parts)

    def written(self, data: bytes, session_id: str) -> SessionFile | None:
        """Return the file as it would be read, decoding only the new messages.

        Args:
            data: The whole file.
            session_id: The session.

        Returns:
            None if the whole file has to be decoded.
        """
        if len(self.parts) == 1 or sum(map(len, self.new)) > PIECE:
            return None
        start, end = len(self.parts[0]), len(data) - len(self.parts[-1])
        try:
            outline = read_outline(outline_of(data[:start], data[end:]), session_id)
            if outline is None:
                return None
            metadata, extra = outline
            new, _ = read_messages(
                data[end - len(_BETWEEN.join(self.new)) : end],
                first=len(self.known),
                session_id=session_id,
                created_at=metadata.created_at,
            )
        except (Malformed, *NO_JSON):
            return None
        session = session_of(metadata, (*self.known, *new), extra)
        return SessionFile(session, data, (start, end), self.uncut)


def rewrite(session: Session, before: SessionFile | None = None) -> Rewrite:
    """Encode a session, reusing text of its current file; else the same bytes as ``encode``.

    Args:
        session: The session.
        before: The session's current file.

    Raises:
        ValidationFailed: A value in the session can't be encoded as JSON.
    """
    try:
        outline = orjson.dumps(document_of(session, [PLACEHOLDER]), default=dict, option=READABLE)
        head, found, tail = outline.partition(PLACEHOLDER_LINE)
        if not (session.messages and found):
            return Rewrite([encode(session)])
        known: Sequence[Message] = ()
        texts: Sequence[Part] = []
        uncut = 0
        if before is not None:
            known = _common_prefix(before.session.messages, session.messages)
            text = before.text_of(len(known))
            texts = [*texts_of(known)] if text is None else [text]
            uncut = 0 if text is None else before.uncut
        new = [*texts_of(session.messages[len(known) :])]
    except TypeError:  # then all of it is encoded without orjson
        return Rewrite([encode(session)])
    parts: list[Part] = [head]
    for run in (*texts, *new):
        parts += (run, _BETWEEN)
    parts[-1] = tail
    return Rewrite(parts, known, new, uncut)


def _common_prefix(old: Sequence[Message], new: Sequence[Message]) -> Sequence[Message]:
    """Return the common prefix of both, by identity."""
    same = [*map(is_, old, new)]
    return new[: same.index(False)] if False in same else new[: len(same)]
