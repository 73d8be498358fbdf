"""Caches the sessions that this process read or wrote last, with the tags of their objects."""

import os
import threading

import msgspec

from cluster_app.objects.store import Tag
from sessions_app.format.rewriting import SessionFile
from sessions_app.session import Session
from sessions_app.store.cache import MOST_BYTES, MOST_SESSIONS
from sessions_app.store.envelope import Envelope


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


class DocumentCache:
    """Caches the documents that were read or written last. Thread-safe.

    Entries may be stale, which their tag shows. They are immutable and shared.
    """

    def __init__(self) -> None:
        self._begin()

    def get(self, session_id: str) -> Document | None:
        """Return a cached document."""
        return self._known.get(session_id)

    def recall(self, session_id: str) -> Session | None:
        """Return a session if its document is cached."""
        known = self._known.get(session_id)
        return None if known is None else known.session

    def keep(self, session_id: str, document: Document) -> None:
        """Cache a document; evict the oldest ones beyond the limits."""
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
        """Remove a session from the cache."""
        with self._locked():
            self._drop(session_id)

    def _locked(self) -> threading.Lock:
        """Return the lock; a forked child makes a new one, as its parent may hold the old."""
        if self._process != os.getpid():
            self._begin()
        return self._lock

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._known: dict[str, Document] = {}
        self._size = 0

    def _drop(self, session_id: str) -> None:
        known = self._known.pop(session_id, None)
        if known is not None:
            self._size -= len(known.file.data)
