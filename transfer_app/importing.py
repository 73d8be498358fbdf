"""Imports other programs' conversations, and sessions as JSON Lines.

The id of a session is derived from the conversation's origin (docs/decisions/0079), so that
importing it again, or continuing after a crash, finds the existing session.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from sessions_app.attachments.service import attachment_of
from sessions_app.attachments.store import AttachmentStore, write_pieces
from sessions_app.errors import (
    AttachmentTooLarge,
    SessionCorrupt,
    SessionExists,
    SessionNotFound,
    SessionReadOnly,
    ValidationFailed,
)
from sessions_app.format.codec import encode
from sessions_app.ids_and_clock import utc_now
from sessions_app.messages import Attachment
from sessions_app.service import SessionManager
from sessions_app.session import Session
from transfer_app.archive_import import (
    ImportedArchive,
    Outcome,
    SessionImporter,
)
from transfer_app.conversion import (
    message_ids,
    origin_of,
    session_id_of,
    session_of,
)
from transfer_app.entries import Entry, Problem
from transfer_app.export_file import ExportFile
from transfer_app.formats.conversation import (
    Branch,
    GivenFile,
    ImportedConversation,
    UnusableEntry,
)
from transfer_app.formats.recognition import parse
from transfer_app.formats.sources import ImportOptions

NO_MODEL = (
    "it names no model, and none is installed: give one (--model NAME, over HTTP ?model=NAME), or "
    "set MOCHI_DEFAULT_MODEL"
)
_ATTEMPTS = 20
"""The maximum ids to try for a conversation: with millions of sessions, ids may collide."""


class ConversationImport:
    """Imports the conversations of one file. Calls block.

    Args:
        file: The file.
        sessions: The destination of conversations.
        store: The destination of images and files.
        max_attachment_bytes: The maximum size of an image or file.
        options: The options.

    Attributes:
        attachments_added: The number of new images and files.
        left_out: Nothing: other files in the export belong to conversations.
    """

    left_out: Sequence[str] = ()

    def __init__(
        self,
        file: ExportFile,
        sessions: SessionManager,
        store: AttachmentStore,
        *,
        max_attachment_bytes: int,
        options: ImportOptions,
    ) -> None:
        self._file = file
        self._sessions = sessions
        self._store = store
        self._max_attachment_bytes = max_attachment_bytes
        self._options = options
        self._own = SessionImporter(
            sessions,
            store,
            None,
            max_attachment_bytes=max_attachment_bytes,
            dry_run=options.dry_run,
        )
        self._kept: dict[str, Attachment | None] = {}
        self.attachments_added = 0
        self._written: set[str] = set()

    @property
    def progress(self) -> tuple[int, int]:
        """Return the number of bytes of conversations read, and of all."""
        return self._file.bytes_read, self._file.total_bytes

    def run(self) -> Iterator[ImportedArchive | Problem]:
        """Import the conversations one by one, and yield the result of each.

        Invalid ones are skipped and reported.

        Raises:
            StorageError: The store is full or can't be reached.
        """
        for entry in self._file.entries():
            if isinstance(entry, Problem):
                yield entry
                continue
            try:
                yield from self._take(entry)
            except UnusableEntry as error:
                yield Problem(place=entry.place, reason=str(error))
            except (SessionReadOnly, ValidationFailed) as error:
                yield Problem(place=entry.place, reason=error.message)

    def _take(self, entry: Entry) -> Iterator[ImportedArchive | Problem]:
        options = self._options
        found = parse(entry.value, options.source, all_branches=options.all_branches)
        if isinstance(found, Session):
            yield self._own.take(found)
            return
        if not found.branches or not found.branches[0].messages:
            yield Problem(place=entry.place, reason="it has no messages", is_empty=True)
            return
        model = options.model or found.model.strip() or options.default_model()
        if not model:
            raise UnusableEntry(NO_MODEL)
        shown = self._take_branch(found, found.branches[0], model, forked_from=None)
        yield shown
        for branch in found.branches[1:]:
            yield self._take_branch(found, branch, model, forked_from=shown.session_id)
        if found.branches_left_out:
            left_out = f"{found.branches_left_out:,} of its branches are too many"
            yield Problem(place=entry.place, reason=left_out)

    def _take_branch(
        self,
        conversation: ImportedConversation,
        branch: Branch,
        model: str,
        *,
        forked_from: str | None,
    ) -> ImportedArchive:
        for attempt in range(_ATTEMPTS):
            session_id = session_id_of(conversation, branch, attempt)
            outcome = self._compared(session_id, conversation, branch)
            attachments: Mapping[GivenFile, Attachment] = {}
            if outcome is None:
                attachments = self._attachments(branch)
                session = session_of(
                    conversation,
                    branch,
                    attachments,
                    session_id=session_id,
                    model=model,
                    now=utc_now(),
                    forked_from=forked_from,
                )
                if not self._create(session, attachments):  # another process was faster
                    outcome = self._compared(session_id, conversation, branch) or "taken"
            if outcome == "taken" or (outcome == "different" and session_id in self._written):
                continue  # the file has this conversation twice, with other messages
            self._written.add(session_id)
            return ImportedArchive(
                session_id=session_id,
                outcome=outcome or "imported",
                messages=len(branch.messages),
                attachments=len({each.id for each in attachments.values()}),
                left_out=[] if outcome else self._left_out(branch, attachments),
                is_branch=bool(branch.leaf),
            )
        raise UnusableEntry("all ids that it may have are other sessions'")

    def _compared(
        self, session_id: str, conversation: ImportedConversation, branch: Branch
    ) -> Outcome | Literal["taken"] | None:
        """Compare a branch with the session of this id.

        Returns:
            None if there is none, ``taken`` if it is another conversation's.
        """
        try:
            there = self._sessions.get(session_id)
        except SessionNotFound:
            return None
        except SessionCorrupt:
            return "different"
        if there.metadata.imported_from != origin_of(conversation, branch):
            return "taken"
        known = {message.message_id for message in there.messages}
        return "same" if known.issuperset(message_ids(conversation, branch)) else "different"

    def _create(self, session: Session, attachments: Mapping[GivenFile, Attachment]) -> bool:
        """Store a session; return False if its id is taken."""
        if self._options.dry_run:
            encode(session)
            return True
        self._store.renew({each.id for each in attachments.values()})
        try:
            self._sessions.repository.create(session)
        except SessionExists:
            return False
        return True

    def _left_out(
        self, branch: Branch, attachments: Mapping[GivenFile, Attachment]
    ) -> Sequence[str]:
        return [
            file.name
            for message in branch.messages
            for file in message.files
            if file not in attachments and not (self._options.dry_run and self._is_there(file))
        ]

    def _is_there(self, file: GivenFile) -> bool:
        return file.data is not None or (
            file.pointer is not None and self._file.holds(file.pointer)
        )

    def _attachments(self, branch: Branch) -> Mapping[GivenFile, Attachment]:
        """Store the images and files of a branch that the export has."""
        if self._options.dry_run:
            return {}
        kept = {
            file: self._keep(file)
            for message in branch.messages
            for file in message.files
            if message.role != "assistant" and self._is_there(file)
        }
        return {file: found for file, found in kept.items() if found is not None}

    def _keep(self, file: GivenFile) -> Attachment | None:
        """Store an image or file; return None if it is invalid, too large, or of unknown type."""
        name = file.name
        if file.data is not None:
            return self._write(iter((file.data,)), name)
        pointer = file.pointer or ""
        if pointer not in self._kept:
            name = self._file.name_of(pointer) if name == pointer else name
            pieces = self._file.pieces(pointer, most=self._max_attachment_bytes)
            self._kept[pointer] = self._write(pieces, name)
        return self._kept[pointer]

    def _write(self, pieces: Iterator[bytes], name: str) -> Attachment | None:
        try:
            stored = write_pieces(self._store, pieces, max_bytes=self._max_attachment_bytes)
        except (AttachmentTooLarge, ValidationFailed):
            return None
        self.attachments_added += stored.is_new
        return attachment_of(stored, name)
