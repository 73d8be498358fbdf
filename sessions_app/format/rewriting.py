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
    unread_of,
)
from sessions_app.format.ends import FileEnds, UnchangedRange
from sessions_app.format.fields import Malformed
from sessions_app.format.layout import (
    PIECE,
    PLACEHOLDER,
    PLACEHOLDER_LINE,
    comma_before,
    outline_of,
)
from sessions_app.format.messages import read_messages, texts_of
from sessions_app.format.unread import find_unread, noted, without_note
from sessions_app.messages import Message
from sessions_app.partly_read import PartlyRead, followed_by
from sessions_app.session import Session, counted

Part = bytes | memoryview | UnchangedRange
"""A part of a file to be written."""

_BETWEEN = b",\n"
"""The bytes between two messages."""


class SessionFile(msgspec.Struct, frozen=True, eq=False):
    """A session and the bytes of its file.

    Attributes:
        session: The decoded session.
        data: The bytes of the file, or only its ends.
        messages_at: The start and end offsets of the messages' text in ``data``, if reusable.
        uncut: The number of first messages that this process did not write: their text can be
            reused only as a whole, as the offsets between them are unknown.
    """

    session: Session
    data: bytes | FileEnds
    messages_at: tuple[int, int] | None = None
    uncut: int = 0

    @classmethod
    def of(cls, data: bytes, session_id: str, *, partly: bool = False) -> "SessionFile":
        """Decode a file; same arguments and errors as ``decode_file``."""
        session, messages_at = decode_file(data, session_id, partly=partly)
        return cls(session, data, messages_at, len(session.messages))

    def text_of(self, count: int) -> Sequence[Part]:
        """Return the text of the first ``count`` messages; empty if it can't be reused."""
        left_out = len(self.session.messages) - count
        if self.messages_at is None or not count or (left_out and count <= self.uncut):
            return ()
        (start, end), data = self.messages_at, self.data
        if isinstance(data, bytes):
            stop = comma_before(data, start, end, messages=left_out)
            return () if stop is None else (memoryview(data)[start:stop],)
        stop = comma_before(data.back, 0, end - data.back_at, messages=left_out)
        return () if stop is None else (data.front[start:], data.stays, data.back[:stop])

    def whole(self) -> "SessionFile":
        """Return the file with all messages decoded."""
        messages = self.session.messages
        if type(messages) is not PartlyRead:
            return self
        session = msgspec.structs.replace(self.session, messages=messages.whole())
        return msgspec.structs.replace(self, session=session)

    def partly(self) -> "SessionFile":
        """Return the file with the messages that turns do not need replaced by lazy ones.

        The context state locates them. If its note does not match the file, it is dropped, and the
        next write makes a new one.
        """
        session, data = self.session, self.data
        metadata, messages = session.metadata, session.messages
        state = metadata.context_state
        if self.messages_at is None or state is None or state.text is None:
            return self
        if isinstance(data, FileEnds) or type(messages) is PartlyRead:
            return self
        place = find_unread(data, *self.messages_at, state)
        if place is None or len(messages) < place.behind:
            metadata = without_note(metadata)
        else:
            run = unread_of(place, lambda: data, metadata)
            head, tail = messages[: place.first], messages[place.behind :]
            messages = PartlyRead(tuple(head), run, tuple(tail))
        session = msgspec.structs.replace(session, metadata=metadata, messages=messages)
        return msgspec.structs.replace(self, session=session)

    def noting(self, session: Session) -> Session:
        """Return the session with a note in its context state of the text not to decode again."""
        if self.messages_at is None or isinstance(self.data, FileEnds):
            return session
        if type(self.session.messages) is PartlyRead:
            return session
        return noted(session, self.session, self.data, self.messages_at)


class WrittenFile(msgspec.Struct, frozen=True, eq=False):
    """The bytes of a file that this process wrote, not yet decoded.

    Attributes:
        data: The bytes of the file, or only its ends.
        messages_at: The start and end offsets of the messages' text in ``data``.
        known: The first messages, decoded from an earlier file.
        new_at: The offset in ``data`` of the text of the other messages.
        uncut: As in ``SessionFile``.
    """

    data: bytes | FileEnds
    messages_at: tuple[int, int]
    known: Sequence[Message]
    new_at: int
    uncut: int = 0

    def read(self, session_id: str) -> SessionFile | None:
        """Decode only the new messages; return None if the whole file has to be decoded."""
        start, end = self.messages_at
        try:
            outline = read_outline(outline_of(self.data[:start], self.data[end:]), session_id)
            if outline is None:
                return None
            metadata, extra = outline
            new, _ = read_messages(
                self.data[self.new_at : end],
                first=len(self.known),
                session_id=session_id,
                created_at=metadata.created_at,
            )
        except (Malformed, *NO_JSON):
            return None
        messages = followed_by(self.known, new)
        session = Session(metadata=metadata, messages=messages, extra=extra)
        return SessionFile(counted(session), self.data, self.messages_at, self.uncut)


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

    @property
    def head(self) -> bytes:
        """Return the bytes before the messages."""
        return _joined(self.parts[:1])

    def joined(self) -> bytes:
        """Join the parts that are in memory."""
        return _joined(self.parts)

    @property
    def stays(self) -> bool:
        """Return whether a part has to be copied from the current file."""
        return UnchangedRange in map(type, self.parts)

    def continues(self, before: SessionFile) -> bool:
        """Return whether it begins with the unchanged text of all messages of ``before``."""
        return bool(self.known) and len(self.known) == len(before.session.messages)

    def pieces(self) -> Iterator[bytes]:
        """Yield the parts in memory in pieces of about ``PIECE`` bytes."""
        piece: list[bytes | memoryview] = []
        size = 0
        for part in self.parts:
            if isinstance(part, UnchangedRange):
                continue
            piece.append(part)
            size += len(part)
            if size >= PIECE:
                yield b"".join(piece)
                piece, size = [], 0
        yield b"".join(piece)

    def written(self, data: bytes) -> WrittenFile | None:
        """Return the file for the cache; None if the whole file has to be decoded.

        Args:
            data: The whole file.
        """
        if len(self.parts) == 1 or sum(map(len, self.new)) > PIECE:
            return None
        return self._written(data)

    def ends(self) -> WrittenFile | None:
        """Return the file for the cache, without the text of lazy messages.

        Returns None if there are none, or if the whole file has to be decoded.
        """
        known = self.known
        if not isinstance(known, PartlyRead) or sum(map(len, self.new)) > PIECE:
            return None
        before, after = known.unread.commas
        head, text, *rest = self.parts
        if isinstance(text, memoryview):
            ends = FileEnds(
                front=_joined([head, text[:before]]),
                middle=after - before,
                back=_joined([text[after:], *rest]),
            )
            return self._written(ends)
        stays, *rest = rest
        if not isinstance(stays, UnchangedRange):  # all messages had to be encoded
            return None
        return self._written(FileEnds(_joined([head, text]), stays.length, _joined(rest)))

    def _written(self, data: bytes | FileEnds) -> WrittenFile:
        end = len(data) - len(self.parts[-1])
        return WrittenFile(
            data=data,
            messages_at=(len(self.parts[0]), end),
            known=self.known,
            new_at=end - len(_BETWEEN.join(self.new)),
            uncut=self.uncut,
        )


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
        texts: Sequence[Sequence[Part]] = []
        uncut = 0
        if before is not None:
            known = _common_prefix(before.session.messages, session.messages)
            text = before.text_of(len(known))
            texts = [text] if text else [(each,) for each in texts_of(known)]
            uncut = before.uncut if text else 0
        new = [*texts_of(session.messages[len(known) :])]
    except TypeError:  # then all of it is encoded without orjson
        return Rewrite([encode(session)])
    parts: list[Part] = [head]
    for run in (*texts, *[(each,) for each in new]):
        parts += (*run, _BETWEEN)
    parts[-1] = tail
    return Rewrite(parts, known, new, uncut)


def _common_prefix(old: Sequence[Message], new: Sequence[Message]) -> Sequence[Message]:
    """Return the common prefix of both, by identity."""
    if type(new) is PartlyRead and (count := new.in_common(old)) is not None:
        return new[:count]
    same = [*map(is_, old, new)]
    return new[: same.index(False)] if False in same else new[: len(same)]


def _joined(parts: Sequence[Part]) -> bytes:
    return b"".join([part for part in parts if not isinstance(part, UnchangedRange)])
