"""Caches the sessions that this process read or wrote last, with the tags of their objects."""

import msgspec

from cluster_app.objects.store import Tag
from sessions_app.format.rewriting import SessionFile
from sessions_app.session import Session
from sessions_app.store.cache import SessionCache
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


class DocumentCache(SessionCache[Document]):
    """Caches the documents that were read or written last; tags show which are stale."""

    def recall(self, session_id: str) -> Session | None:
        """Return a session if its document is cached."""
        known = self.get(session_id)
        return None if known is None else known.session

    def keep(self, session_id: str, document: Document) -> None:
        """Cache a document."""
        self.keep_sized(session_id, document, len(document.file.data))
