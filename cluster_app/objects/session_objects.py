"""Reads and writes the objects of sessions with their envelopes, and updates the index."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from cluster_app.objects.indexed import SUFFIX
from cluster_app.objects.session_index import SessionIndex
from cluster_app.objects.store import (
    ObjectMissing,
    ObjectStore,
    ObjectTooLarge,
    OutcomeUnclear,
    StoredObject,
    Tag,
)
from sessions_app.errors import SessionCorrupt, SessionNotFound, ValidationFailed
from sessions_app.format.layout import PIECE
from sessions_app.format.rewriting import Rewrite, SessionFile, rewrite
from sessions_app.session import Session, counted
from sessions_app.store.cache import SessionCache
from sessions_app.store.envelope import Envelope, enclosed, is_tombstone, opened, tombstone
from sessions_app.store.session_files import SIZE_LIMIT, require_room


class Document(msgspec.Struct, frozen=True, eq=False):
    """A session's object as read from the store.

    Attributes:
        file: The session without its envelope, and the bytes of the object.
        envelope: The part of the object that is not the session.
        tag: Identifies the object's content.
    """

    file: SessionFile
    envelope: Envelope
    tag: Tag

    @property
    def session(self) -> Session:
        """The session, without its envelope."""
        return self.file.session


TOMBSTONE_BYTES = 64
"""The size of the beginning of an object that shows whether it is a tombstone."""


class SessionObjects:
    """Reads and writes the objects of sessions. The caller validates ids.

    Args:
        store: The object store, with one object for each session.
        index: The session index, updated with every write.

    Attributes:
        known: The documents that were read or written last; tags show which are stale.
    """

    def __init__(self, store: ObjectStore, index: SessionIndex) -> None:
        self._store = store
        self._index = index
        self.known: SessionCache[Document] = SessionCache()

    def read(self, session_id: str) -> Document:
        """Return the current content of the object.

        Raises:
            SessionNotFound: There is no object, or a tombstone.
            SessionCorrupt: The object is not a valid session.
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
        document = _document(SessionFile.of(found.data, session_id), found.tag)
        self._keep(session_id, document)
        return document

    def peek(self, session_id: str) -> Document | None:
        """Return the content of the object; None if it is missing or not a valid session."""
        try:
            return self.read(session_id)
        except (SessionNotFound, SessionCorrupt):
            return None

    def replace(
        self, before: Document, session: Session, envelope: Envelope, *, recovers: bool = False
    ) -> None:
        """Replace the object if it is unchanged since it was read.

        Args:
            before: The document that was read.
            session: The new session.
            envelope: The new envelope.
            recovers: Whether it may use the space reserved for recoveries.

        Raises:
            ObjectChanged: Another writer was faster.
            OutcomeUnclear: It is unknown whether the object was written.
            ValidationFailed: The session is too large, or can't be encoded as JSON.
        """
        session_id = before.session.session_id
        new = _enclosed(session, before.file, envelope, recovers=recovers)
        data = new.joined()
        with self._noted(session_id) as mark:
            tag = self._store.put_if(session_id + SUFFIX, data, before.tag)
        self._wrote(session, envelope, _Written(new, data, tag, mark))

    def make(self, session: Session, envelope: Envelope, *, over: Tag | None = None) -> None:
        """Create an object, or replace the tombstone with the tag ``over``.

        Raises:
            ObjectExists: The id is taken.
            ObjectChanged: The tombstone was removed or replaced.
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
        """Replace the object with this tag by a tombstone; raises as ``replace``."""
        with self._noted(session_id) as mark:
            self._store.put_if(session_id + SUFFIX, tombstone(deleted_at=deleted_at), tag)
        self.known.forget(session_id)
        self._index.removed(session_id, mark)

    def raw(self, session_id: str) -> StoredObject:
        """Return the undecoded object, cut if it is too large; raises ``SessionNotFound``."""
        try:
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
        """Remove the object, which must be a tombstone, so that nobody can replace it."""
        self._store.delete(session_id + SUFFIX)

    def read_envelope(self, session_id: str, found: StoredObject) -> Envelope:
        """Return the envelope of an object; an empty one if it is not a valid session."""
        try:
            return _document(SessionFile.of(found.data, session_id), found.tag).envelope
        except SessionCorrupt:
            return Envelope()

    def fits(self, session: Session) -> bool:
        """Return whether the session fits the size limit of recoveries."""
        try:
            known = self.known.get(session.session_id)
            new = rewrite(counted(session), known.file if known else None)
        except ValidationFailed:
            return False
        return new.size <= SIZE_LIMIT

    def _keep(self, session_id: str, document: Document) -> None:
        self.known.keep_sized(session_id, document, len(document.file.data))

    @contextmanager
    def _noted(self, session_id: str) -> Iterator[str]:
        """Mark the object in the index; remove the mark if the write certainly fails."""
        mark = self._index.writing(session_id)
        try:
            yield mark
        except OutcomeUnclear:  # the mark stays, so the object is read again
            raise
        except Exception:
            self._index.unwritten(session_id, mark)
            raise

    def _wrote(self, session: Session, envelope: Envelope, done: "_Written") -> None:
        session_id = session.session_id
        file = done.new.written(done.data, session_id)
        if file is None and len(done.data) <= PIECE:
            file = SessionFile.of(done.data, session_id)
        if file is not None:
            self._keep(session_id, _document(file, done.tag))
        else:
            self.known.forget(session_id)
        self._index.wrote(
            session_id,
            done.mark,
            etag=done.tag.etag,
            metadata=session.metadata,
            claim=envelope.claim,
        )


def _document(file: SessionFile, tag: Tag) -> Document:
    session, envelope = opened(file.session)
    return Document(msgspec.structs.replace(file, session=session), envelope, tag)


class _Written(NamedTuple):
    """A completed write."""

    new: Rewrite
    data: bytes
    tag: Tag
    mark: str


def _enclosed(
    session: Session, before: SessionFile | None, envelope: Envelope, *, recovers: bool = False
) -> Rewrite:
    """Encode a session with this envelope in parts; drop an envelope in its extra fields.

    Raises:
        ValidationFailed: The session is too large, or can't be encoded as JSON.
    """
    own, _ = opened(session)
    new = rewrite(own, before)
    require_room(new.size, None if before is None else len(before.data), recovers=recovers)
    parts = [enclosed(bytes(new.parts[0]), envelope), *new.parts[1:]]
    return msgspec.structs.replace(new, parts=parts)
