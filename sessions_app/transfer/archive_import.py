"""Imports the sessions of an archive with their attachments. Nothing is overwritten."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from sessions_app.attachments.store import AttachmentStore, StoredFile, write_pieces
from sessions_app.errors import (
    AttachmentNotFound,
    SessionCorrupt,
    SessionExists,
    SessionNotFound,
    ValidationFailed,
)
from sessions_app.format.codec import encode
from sessions_app.messages import Attachment
from sessions_app.service import SessionManager
from sessions_app.session import Session
from sessions_app.settings import ask_before_all_tools
from sessions_app.transfer.layout import attachments_of
from sessions_app.transfer.reading import SessionArchive

Outcome = Literal["imported", "same", "different"]


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The result of importing one session of an archive.

    Attributes:
        session_id: The session.
        outcome: ``imported``; ``same``: it was there already; ``different``: another one of this
            id is there, and stays.
        messages: How many messages it has.
        attachments: How many different attachments its messages refer to.
        missing: Those of them that neither the archive nor the store has.
        left_out: The names of files that an export speaks of and does not have.
        is_branch: Whether it is another branch of a conversation than the one that is shown.
    """

    session_id: str
    outcome: Outcome
    messages: int
    attachments: int = 0
    missing: Sequence[Attachment] = ()
    left_out: Sequence[str] = ()
    is_branch: bool = False


class AttachmentSource(Protocol):
    """Holds attachments that come with sessions."""

    @property
    def attachment_ids(self) -> Collection[str]:
        """The attachments that it holds."""

    def pieces(self, attachment_id: str) -> Iterator[bytes]:
        """Yield the bytes of one of them."""


class NoAttachments:
    """Holds no attachments: those that sessions refer to are there already, or missing."""

    attachment_ids: Collection[str] = ()

    def pieces(self, attachment_id: str) -> Iterator[bytes]:
        """Raise ``AttachmentNotFound``."""
        raise AttachmentNotFound(attachment_id)


class SessionImporter:
    """Takes sessions of this server's kind in, one by one. Calls block.

    Doing it twice is doing it once. A session comes after its attachments, so one that breaks off
    leaves no session without them; what it stored for nothing is swept like any upload that no
    message refers to. Its policies stay behind: whoever wrote it must not decide what runs here
    without a question.

    Args:
        sessions: Where they go.
        store: Where their attachments go.
        source: Where their attachments come from.
        max_attachment_bytes: The largest attachment that may be kept.
        dry_run: Whether nothing is written, and only said what would be.

    Attributes:
        attachments_added: How many attachments were not kept before.
    """

    def __init__(
        self,
        sessions: SessionManager,
        store: AttachmentStore,
        source: AttachmentSource,
        *,
        max_attachment_bytes: int,
        dry_run: bool = False,
    ) -> None:
        self._sessions = sessions
        self._store = store
        self._source = source
        self._max_attachment_bytes = max_attachment_bytes
        self._dry_run = dry_run
        self._kept: dict[str, StoredFile | None] = {}
        self.attachments_added = 0

    def take(self, session: Session) -> Taken:
        """Import a session, and return the result.

        Raises:
            ValidationFailed: An attachment is not what a message says of it.
            StorageError: There is no room, or the store can't be asked.
        """
        outcome = self._compared(session)
        if outcome == "different":
            return _taken(session, outcome)
        references = attachments_of(session)
        if self._dry_run:
            lost = tuple(each for each in references if not self._is_there(each.id))
            return _taken(session, outcome or "imported", len(references), lost)
        kept = {each.id: self._keep(each.id) for each in references}
        _check(session, references, kept)
        self._store.renew([id_ for id_, file in kept.items() if file is not None])
        if outcome is None:
            try:
                self._sessions.repository.create(ask_before_all_tools(session))
            except SessionExists:  # another process was faster
                outcome = self._compared(session) or "different"
        missing = tuple(each for each in references if kept[each.id] is None)
        return _taken(session, outcome or "imported", len(references), missing)

    def _compared(self, session: Session) -> Outcome | None:
        """Compare a session with the one of its id; None where there is none."""
        try:
            there = self._sessions.get(session.session_id)
        except SessionNotFound:
            return None
        except SessionCorrupt:
            return "different"
        known = encode(there)  # with its policies, too, if it has been here all the time
        is_same = any(known == encode(each) for each in (session, ask_before_all_tools(session)))
        return "same" if is_same else "different"

    def _is_there(self, attachment_id: str) -> bool:
        if attachment_id in self._source.attachment_ids:
            return True
        try:
            self._store.stat(attachment_id)
        except AttachmentNotFound:
            return False
        return True

    def _keep(self, attachment_id: str) -> StoredFile | None:
        """Have an attachment in the store; None where there is none of this id."""
        if attachment_id not in self._kept:
            try:
                self._kept[attachment_id] = self._store.stat(attachment_id)
            except AttachmentNotFound:
                self._kept[attachment_id] = self._write(attachment_id)
        return self._kept[attachment_id]

    def _write(self, attachment_id: str) -> StoredFile | None:
        if attachment_id not in self._source.attachment_ids:
            return None
        pieces = self._source.pieces(attachment_id)
        file = write_pieces(self._store, pieces, max_bytes=self._max_attachment_bytes)
        self.attachments_added += file.is_new
        return file


class ArchiveImport:
    """Takes the sessions of one archive in. Calls block.

    Args:
        archive: The archive.
        sessions: Where its sessions go.
        store: Where their attachments go.
        max_attachment_bytes: The largest attachment that may be kept.
        dry_run: Whether nothing is written, and only said what would be.
    """

    def __init__(
        self,
        archive: SessionArchive,
        sessions: SessionManager,
        store: AttachmentStore,
        *,
        max_attachment_bytes: int,
        dry_run: bool = False,
    ) -> None:
        self._archive = archive
        self._done = 0
        self._taking = SessionImporter(
            sessions,
            store,
            archive,
            max_attachment_bytes=max_attachment_bytes,
            dry_run=dry_run,
        )

    @property
    def attachments_added(self) -> int:
        """Return how many attachments were not kept before."""
        return self._taking.attachments_added

    @property
    def left_out(self) -> Sequence[str]:
        """Return the names of what the archive holds beside sessions and their attachments."""
        return self._archive.left_out

    @property
    def progress(self) -> tuple[int, int]:
        """Return how many sessions were looked at, and how many there are."""
        return self._done, len(self._archive.session_ids)

    def run(self) -> Iterator[Taken]:
        """Import one session after the other, and yield the result of each.

        Raises:
            ValidationFailed: An attachment is not what a message says of it.
            StorageError: There is no room, or the store can't be asked.
        """
        for session_id in self._archive.session_ids:
            taken = self._taking.take(self._archive.session(session_id))
            self._done += 1
            yield taken


def _taken(
    session: Session, outcome: Outcome, attachments: int = 0, missing: Sequence[Attachment] = ()
) -> Taken:
    return Taken(
        session_id=session.session_id,
        outcome=outcome,
        messages=len(session.messages),
        attachments=attachments,
        missing=missing,
    )


def _check(
    session: Session,
    references: Sequence[Attachment],
    kept: Mapping[str, StoredFile | None],
) -> None:
    """Refuse a session that says of a file what it is not: others believe its references."""
    for reference in references:
        file = kept[reference.id]
        if file is not None and not _is_of(reference, file):
            raise ValidationFailed(
                f"Session {session.session_id} of the file says of {reference.id} what it is not."
            )


def _is_of(reference: Attachment, file: StoredFile) -> bool:
    """Return whether a reference can be of a file; other versions may not look for sizes."""
    sizes = ((reference.width, file.width), (reference.height, file.height))
    return (reference.media_type, reference.size) == (file.media_type, file.size) and all(
        said is None or found is None or said == found for said, found in sizes
    )
