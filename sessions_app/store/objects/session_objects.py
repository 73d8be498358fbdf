"""Reads and writes the objects of sessions with their envelopes, and updates the index."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from sessions_app.errors import SessionCorrupt, SessionNotFound, ValidationFailed
from sessions_app.format.layout import PIECE
from sessions_app.format.rewriting import Rewrite, SessionFile, rewrite
from sessions_app.session import Session, counted
from sessions_app.store.objects.document_cache import Document, DocumentCache, WrittenDocument
from sessions_app.store.objects.envelope import Envelope, enclosed, is_tombstone, opened, tombstone
from sessions_app.store.objects.session_index import SessionIndex
from sessions_app.store.objects.store import (
    ObjectMissing,
    ObjectStore,
    ObjectTooLarge,
    OutcomeUnclear,
    StoredObject,
    Tag,
)
from sessions_app.store.session_files import SIZE_LIMIT, require_room

SUFFIX = ".json"
TOMBSTONE_BYTES = 64
"""The beginning of an object that shows whether it is a tombstone."""


class SessionObjects:
    """The objects of sessions in one place. Ids were checked by the caller.

    Args:
        store: The objects, one a session.
        index: What listings read; it is told of every write.
    """

    def __init__(self, store: ObjectStore, index: SessionIndex) -> None:
        self._store = store
        self._index = index
        self.known = DocumentCache()

    def read(self, session_id: str) -> Document:
        """Return what the object holds just now.

        Raises:
            SessionNotFound: There is none.
            SessionCorrupt: It is no session.
        """
        known = self.known.get(session_id)
        key = session_id + SUFFIX
        try:
            if known is None:
                found: StoredObject | None = self._store.get(key)
            else:
                found = self._store.get_if_changed(key, known.tag)
        except ObjectMissing as error:
            self.known.forget(session_id)
            raise SessionNotFound(session_id) from error
        except ObjectTooLarge as error:
            raise SessionCorrupt(session_id, error.message) from error
        if found is None:
            return known or self.read(session_id)
        if is_tombstone(found.data):
            self.known.forget(session_id)
            raise SessionNotFound(session_id)
        document = self._document(session_id, found)
        self.known.keep(session_id, document)
        return document

    def peek(self, session_id: str) -> Document | None:
        """Return what the object holds; None where it is missing, or is no session."""
        try:
            return self.read(session_id)
        except (SessionNotFound, SessionCorrupt):
            return None

    def replace(
        self, before: Document, session: Session, envelope: Envelope, *, recovers: bool = False
    ) -> None:
        """Write an object in the place of the one that was read.

        Args:
            before: What was read.
            session: The session.
            envelope: What goes with it.
            recovers: Whether it may use the room that is kept for recoveries.

        Raises:
            ObjectChanged: Another writer was faster.
            OutcomeUnclear: Nobody knows whether it was written.
            ValidationFailed: The session is too large, or can't be written as JSON.
        """
        session_id = before.session.session_id
        new = _enclosed(session, before.file, envelope, recovers=recovers)
        data = new.joined()
        with self._noted(session_id) as mark:
            tag = self._store.put_if(session_id + SUFFIX, data, before.tag)
        self._wrote(session, envelope, _Written(new, data, tag, mark))

    def make(self, session: Session, envelope: Envelope, *, over: Tag | None = None) -> None:
        """Write a new object, in the place of none or of a tombstone.

        Raises:
            ObjectExists: The id is taken.
            ObjectChanged: The tombstone is not there any more.
            OutcomeUnclear, ValidationFailed: As for ``replace``.
        """
        new = _enclosed(session, None, envelope)
        data = new.joined()
        with self._noted(session.session_id) as mark:
            key = session.session_id + SUFFIX
            put_new, put_if = self._store.put_new, self._store.put_if
            tag = put_new(key, data) if over is None else put_if(key, data, over)
        self._wrote(session, envelope, _Written(new, data, tag, mark))

    def replace_by_tombstone(self, session_id: str, tag: Tag, *, deleted_at: str) -> None:
        """Let the object be no session any more; raises as ``replace``."""
        with self._noted(session_id) as mark:
            self._store.put_if(session_id + SUFFIX, tombstone(deleted_at=deleted_at), tag)
        self.known.forget(session_id)
        self._index.removed(session_id, mark)

    def raw(self, session_id: str) -> StoredObject:
        """Return the object itself, of one that is too large the beginning; ``SessionNotFound``."""
        try:
            return self._store.get(session_id + SUFFIX)
        except ObjectTooLarge:
            return self._store.head_bytes(session_id + SUFFIX, TOMBSTONE_BYTES)
        except ObjectMissing as error:
            raise SessionNotFound(session_id) from error

    def is_gone(self, session_id: str) -> bool:
        """Return whether the object is missing or being removed."""
        try:
            return is_tombstone(self._store.head_bytes(session_id + SUFFIX, TOMBSTONE_BYTES).data)
        except ObjectMissing:
            return True

    def remove(self, session_id: str) -> None:
        """Remove the object, which is a tombstone that nobody can write over."""
        self._store.delete(session_id + SUFFIX)

    def read_envelope(self, session_id: str, found: StoredObject) -> Envelope:
        """Return what an object holds beside its session; nothing where it is none."""
        try:
            return self._document(session_id, found).envelope
        except SessionCorrupt:
            return Envelope()

    def fits(self, session: Session) -> bool:
        """Return whether a recovery could write the session."""
        try:
            known = self.known.get(session.session_id)
            new = rewrite(counted(session), known.file if known else None)
        except ValidationFailed:
            return False
        return new.size <= SIZE_LIMIT

    @contextmanager
    def _noted(self, session_id: str) -> Iterator[str]:
        """Tell the index that the object is about to be written, and if that certainly failed."""
        mark = self._index.writing(session_id)
        try:
            yield mark
        except OutcomeUnclear:  # the mark stays: the object is read to know
            raise
        except Exception:
            self._index.unwritten(session_id, mark)
            raise

    def _wrote(self, session: Session, envelope: Envelope, done: "_Written") -> None:
        session_id = session.session_id
        if (file := done.new.written(done.data)) is not None:
            self.known.keep(session_id, WrittenDocument(file, envelope, done.tag))
        elif len(done.data) <= PIECE:
            found = StoredObject(done.data, done.tag)
            self.known.keep(session_id, self._document(session_id, found))
        else:
            self.known.forget(session_id)
        self._index.wrote(
            session_id,
            done.mark,
            etag=done.tag.etag,
            metadata=session.metadata,
            claim=envelope.claim,
        )

    def _document(self, session_id: str, found: StoredObject) -> Document:
        file = SessionFile.of(found.data, session_id)
        session, envelope = opened(file.session)
        return Document(msgspec.structs.replace(file, session=session), envelope, found.tag)


class _Written(NamedTuple):
    """A write that was made."""

    new: Rewrite
    data: bytes
    tag: Tag
    mark: str


def _enclosed(
    session: Session, before: SessionFile | None, envelope: Envelope, *, recovers: bool = False
) -> Rewrite:
    """Return the object of a session, in parts; an envelope from elsewhere is not for this one.

    Raises:
        ValidationFailed: The session is too large, or can't be written as JSON.
    """
    own, _ = opened(session)
    new = rewrite(own, before)
    require_room(new.size, None if before is None else len(before.data), recovers=recovers)
    parts = [enclosed(new.head, envelope), *new.parts[1:]]
    return msgspec.structs.replace(new, parts=parts)
