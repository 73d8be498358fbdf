"""Imports the sessions of an archive with their attachments. Nothing is overwritten."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from models_app.names import is_permitted
from sessions_app.attachments.store import AttachmentStore, StoredFile, write_pieces
from sessions_app.errors import (
    AttachmentNotFound,
    SessionCorrupt,
    SessionExists,
    SessionNotFound,
    ValidationFailed,
)
from sessions_app.format.codec import encode
from sessions_app.inbox import EMPTY_INBOX
from sessions_app.messages import Attachment
from sessions_app.service import SessionManager
from sessions_app.session import Session, with_inbox
from sessions_app.session_settings import ask_before_all_tools
from transfer_app.layout import attachments_of
from transfer_app.reading import SessionArchive

Outcome = Literal["imported", "same", "different"]

OWN_SOURCE = "mochi"
"""The ``source`` in ``imported_from`` of sessions that another server exported."""


class ImportedArchive(msgspec.Struct, frozen=True, kw_only=True):
    """The result of importing one session.

    Attributes:
        session_id: The session.
        outcome: ``imported``; ``same`` if it existed already; ``different`` if another session has
            this id, which is not changed.
        messages: The number of messages.
        attachments: The number of different attachments that its messages refer to.
        missing: The attachments that neither the archive nor the store has.
        left_out: The names of files that an export mentions but does not contain.
        is_branch: Whether it is a branch of a conversation other than the one shown.
    """

    session_id: str
    outcome: Outcome
    messages: int
    attachments: int = 0
    missing: Sequence[Attachment] = ()
    left_out: Sequence[str] = ()
    is_branch: bool = False


class SessionImporter:
    """Imports sessions in this server's format, one by one. Calls block.

    Importing is idempotent. A session is stored after its attachments, so an interrupted import
    leaves no session without them; unused attachments are swept like unused uploads. Tool policies
    are not imported, because a file's author must not decide what runs here without approval, and
    neither are clients' names for conversations, by which it would take a front end's thread.
    Where sessions expire, one is marked as imported, so that its age does not delete it at once
    (docs/decisions/0080).

    Args:
        sessions: The destination of sessions.
        store: The destination of attachments.
        archive: The archive of the sessions and their attachments; None where sessions come
            otherwise, and their attachments are stored already.
        max_attachment_bytes: The maximum size of an attachment.
        dry_run: Whether to write nothing, and only report.

    Attributes:
        attachments_added: The number of new attachments.
        left_out: The names of other files in the archive.
    """

    def __init__(
        self,
        sessions: SessionManager,
        store: AttachmentStore,
        archive: SessionArchive | None,
        *,
        max_attachment_bytes: int,
        dry_run: bool = False,
    ) -> None:
        self._sessions = sessions
        self._store = store
        self._archive = archive
        self._max_attachment_bytes = max_attachment_bytes
        self._dry_run = dry_run
        self._kept: dict[str, StoredFile | None] = {}
        self.attachments_added = 0
        self.left_out = archive.left_out if archive is not None else ()
        self._session_ids = archive.session_ids if archive is not None else ()
        self._done = 0

    @property
    def progress(self) -> tuple[int, int]:
        """Return the number of processed sessions of the archive, and of all."""
        return self._done, len(self._session_ids)

    def run(self) -> Iterator[ImportedArchive]:
        """Import the sessions of the archive one by one, and yield the result of each.

        Raises:
            ValidationFailed: An attachment does not match a reference to it.
            StorageError: The store is full or can't be reached.
        """
        if self._archive is None:
            return
        for session_id in self._session_ids:
            result = self.take(self._archive.session(session_id))
            self._done += 1
            yield result

    def take(self, session: Session) -> ImportedArchive:
        """Import a session, and return the result.

        Raises:
            ValidationFailed: An attachment does not match a reference to it.
            StorageError: The store is full or can't be reached.
        """
        outcome = self._compared(session)
        if outcome == "different":
            return _result(session, outcome)
        references = attachments_of(session)
        if self._dry_run:
            lost = tuple(each for each in references if not self._is_there(each.id))
            return _result(session, outcome or "imported", len(references), lost)
        kept = {each.id: self._keep(each.id) for each in references}
        _check(session, references, kept)
        self._store.renew([id_ for id_, file in kept.items() if file is not None])
        if outcome is None:
            try:
                self._sessions.repository.create(self._as_imported(session))
            except SessionExists:  # another process was faster
                outcome = self._compared(session) or "different"
        missing = tuple(each for each in references if kept[each.id] is None)
        return _result(session, outcome or "imported", len(references), missing)

    def _as_imported(self, session: Session) -> Session:
        """Return the session for this server; with its origin, where its age counts."""
        shown = _disarmed(session)
        return _imported(shown) if self._sessions.expires else shown

    def _compared(self, session: Session) -> Outcome | None:
        """Compare a session with the existing one of its id; return None if there is none."""
        try:
            there = self._sessions.get(session.session_id)
        except SessionNotFound:
            return None
        except SessionCorrupt:
            return "different"
        known = encode(_unmarked(there))
        # also as it is, if the session came from this server
        either = (session, _disarmed(session))
        is_same = any(known == encode(_unmarked(each)) for each in either)
        return "same" if is_same else "different"

    def _is_there(self, attachment_id: str) -> bool:
        if self._archive is not None and attachment_id in self._archive.attachment_ids:
            return True
        try:
            self._store.stat(attachment_id)
        except AttachmentNotFound:
            return False
        return True

    def _keep(self, attachment_id: str) -> StoredFile | None:
        """Store an attachment if needed; return None if it is missing."""
        if attachment_id not in self._kept:
            try:
                self._kept[attachment_id] = self._store.stat(attachment_id)
            except AttachmentNotFound:
                self._kept[attachment_id] = self._write(attachment_id)
        return self._kept[attachment_id]

    def _write(self, attachment_id: str) -> StoredFile | None:
        if self._archive is None or attachment_id not in self._archive.attachment_ids:
            return None
        pieces = self._archive.pieces(attachment_id)
        file = write_pieces(self._store, pieces, max_bytes=self._max_attachment_bytes)
        self.attachments_added += file.is_new
        return file


def _disarmed(session: Session) -> Session:
    """Return the session without its policies, its inbox, and its client's name for it.

    Nor with a model for summaries that the key of the request is not for: no request writes those.
    """
    metadata = msgspec.structs.replace(session.metadata, client_id=None)
    if metadata.summary_model is not None and not is_permitted(metadata.summary_model):
        metadata = msgspec.structs.replace(metadata, summary_model=None, summary_model_by=None)
    disarmed = ask_before_all_tools(msgspec.structs.replace(session, metadata=metadata))
    return with_inbox(disarmed, EMPTY_INBOX)


def _mark(session: Session) -> Mapping[str, str]:
    return {"source": OWN_SOURCE, "id": session.session_id}


def _imported(session: Session) -> Session:
    """Return the session with its origin: another server, unless it came from elsewhere before."""
    if session.metadata.imported_from is not None:
        return session
    metadata = msgspec.structs.replace(session.metadata, imported_from=_mark(session))
    return msgspec.structs.replace(session, metadata=metadata)


def _unmarked(session: Session) -> Session:
    """Return the session as it was before ``_imported``, without what waits in its inbox."""
    session = with_inbox(session, EMPTY_INBOX)
    if session.metadata.imported_from != _mark(session):
        return session
    metadata = msgspec.structs.replace(session.metadata, imported_from=None)
    return msgspec.structs.replace(session, metadata=metadata)


def _result(
    session: Session, outcome: Outcome, attachments: int = 0, missing: Sequence[Attachment] = ()
) -> ImportedArchive:
    return ImportedArchive(
        session_id=session.session_id,
        outcome=outcome,
        messages=len(session.messages),
        attachments=attachments,
        missing=missing,
    )


def _check(
    session: Session,
    references: Sequence[Attachment],
    files: Mapping[str, StoredFile | None],
) -> None:
    """Refuse a session with a false reference to a file, since references are trusted later."""
    for reference in references:
        file = files[reference.id]
        if file is not None and not _is_of(reference, file):
            raise ValidationFailed(
                f"Session {session.session_id} describes the file {reference.id} wrongly."
            )


def _is_of(reference: Attachment, file: StoredFile) -> bool:
    """Return whether a reference matches a file; other versions may not record image sizes."""
    sizes = ((reference.width, file.width), (reference.height, file.height))
    return (reference.media_type, reference.size) == (file.media_type, file.size) and all(
        said is None or found is None or said == found for said, found in sizes
    )
