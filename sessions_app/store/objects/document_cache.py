"""Remembers the sessions that this process read or wrote last, with the tags of their objects."""

import os
import threading

import msgspec

from sessions_app.format.rewriting import SessionFile, WrittenFile
from sessions_app.session import Session
from sessions_app.store.cache import MOST_BYTES, MOST_SESSIONS
from sessions_app.store.objects.envelope import Envelope, opened
from sessions_app.store.objects.store import Tag


class Document(msgspec.Struct, frozen=True, eq=False):
    """An object with a session, as it was read.

    Attributes:
        file: The session without its envelope, and the bytes of the object.
        envelope: What the object holds beside it.
        tag: Names what it holds.
    """

    file: SessionFile
    envelope: Envelope
    tag: Tag

    @property
    def session(self) -> Session:
        """The session, without its envelope."""
        return self.file.session


class WrittenDocument(msgspec.Struct, frozen=True, eq=False):
    """An object that this process wrote, not yet read back."""

    file: WrittenFile
    envelope: Envelope
    tag: Tag

    def read(self, session_id: str) -> Document | None:
        """Return what reading the object gives, for less; None where it must be read."""
        file = self.file.read(session_id)
        if file is None:
            return None
        session, _ = opened(file.session)
        return Document(msgspec.structs.replace(file, session=session), self.envelope, self.tag)


class DocumentCache:
    """The documents that were read or written last. They may be out of date: their tag tells.

    They are shared: they are values, which never change. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._begin()

    def get(self, session_id: str) -> Document | None:
        """Return a document, read if it was only written so far."""
        known = self._known.get(session_id)
        if not isinstance(known, WrittenDocument):
            return known
        document = known.read(session_id)
        with self._locked():
            if self._known.get(session_id) is known:
                if document is None:
                    self._drop(session_id)
                else:
                    self._known[session_id] = document
        return document

    def recall(self, session_id: str) -> Session | None:
        """Return a session at once, if it was read."""
        known = self._known.get(session_id)
        return known.session if isinstance(known, Document) else None

    def keep(self, session_id: str, document: Document | WrittenDocument) -> None:
        """Keep a document, and drop those that were kept first beyond the limits."""
        size = len(document.file.data)
        with self._locked():
            self._drop(session_id)
            if size > MOST_BYTES:
                return
            self._known[session_id] = document
            self._size += size
            while len(self._known) > MOST_SESSIONS or self._size > MOST_BYTES:
                self._drop(next(iter(self._known)))

    def forget(self, session_id: str) -> None:
        """Keep nothing of this session."""
        with self._locked():
            self._drop(session_id)

    def _locked(self) -> threading.Lock:
        """Return the lock, to be held; a forked child begins anew, as its parent may hold it."""
        if self._process != os.getpid():
            self._begin()
        return self._lock

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._known: dict[str, Document | WrittenDocument] = {}
        self._size = 0

    def _drop(self, session_id: str) -> None:
        known = self._known.pop(session_id, None)
        if known is not None:
            self._size -= len(known.file.data)
