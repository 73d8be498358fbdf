"""Exports all sessions as one file, in pieces."""

from collections.abc import Iterator, Sequence
from typing import Literal

from sessions_app.attachments.store import AttachmentStore
from sessions_app.errors import SessionCorrupt, SessionNotFound
from sessions_app.format.codec import to_json
from sessions_app.format.json_pieces import in_pieces
from sessions_app.service import SessionManager
from sessions_app.session import Session
from transfer_app.writing import (
    ZipEntry,
    kept_files,
    session_entries,
    session_pieces,
    zip_pieces,
)

AllFormat = Literal["jsonl", "zip"]


class AllExport:
    """An export of sessions, written one by one. Calls block.

    Sessions deleted meanwhile and unreadable ones are left out.

    Args:
        sessions: The sessions.
        store: The attachments.
        archived: Only archived or only other sessions; None for both.
        anew: Whether to look for changes by other programs first, even if that takes long.

    Attributes:
        session_ids: The sessions.
        unreadable: The number of unreadable files left out.
        complete: Whether no sessions are missing: False while an index is being rebuilt.
    """

    def __init__(
        self,
        sessions: SessionManager,
        store: AttachmentStore,
        *,
        archived: bool | None = None,
        anew: bool = False,
    ) -> None:
        self._sessions = sessions
        self._store = store
        if anew:
            sessions.repository.list(anew=True)
        page = sessions.list(archived=archived)
        self.session_ids: Sequence[str] = [each.session_id for each in page.sessions]
        self.unreadable = len(page.unreadable)
        self.complete = page.complete

    @property
    def warning(self) -> str:
        """Return a warning about missing sessions; empty if there are none."""
        lacks = []
        if self.unreadable:
            lacks.append(f"{self.unreadable} sessions can't be read and are left out")
        if not self.complete:
            lacks.append("these are not all: the index of sessions is being made")
        return "; ".join(lacks)

    def pieces(self, kind: AllFormat) -> Iterator[bytes]:
        """Yield the file: JSON Lines, or a zip file of sessions and attachments.

        Raises:
            StorageError: The store can't be reached.
        """
        if kind == "zip":
            return zip_pieces(self._entries())
        return map(b"".join, in_pieces(self._lines(), len))  # of a size that is worth sending

    def _read(self) -> Iterator[Session]:
        for session_id in self.session_ids:
            try:
                yield self._sessions.get(session_id)
            except (SessionNotFound, SessionCorrupt):
                continue

    def _lines(self) -> Iterator[bytes]:
        for session in self._read():
            yield from session_pieces(session, to_json)
            yield b"\n"

    def _entries(self) -> Iterator[ZipEntry]:
        written: set[str] = set()
        for session in self._read():
            files, _ = kept_files(session, self._store)
            yield from session_entries(
                session, [file for file in files if file.id not in written], self._store
            )
            written.update(file.id for file in files)
